import BrokerAPI
import Callers
import Glibc
import Listening
import Logging
import NIOCore
import Principals

/// One connection for one credential. It sends nothing; its name and its process are the request. It gets the
/// credential and the end, or the data that make systemd refuse to start the unit.
final class CredentialHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private enum State {
    case asking(Scheduled<Void>?)
    /// Whatever there is to send is being sent.
    case answered
  }

  /// systemd takes an end without data for an empty credential, and half of one for a whole: only a value above its
  /// limit of 1 MiB prevents the unit's start.
  static let refusal: ByteBuffer = {
    let line = "grantd refused this credential: its journal says why\n"
    return ByteBuffer(string: String(repeating: line, count: (1 << 20) / line.utf8.count + 1024))
  }()
  static let tooLarge = 1 << 20

  /// The functions that decide a request, answer it, and are called for each withheld credential.
  struct Service: Sendable {
    let judge: CredentialServer.Judge
    let source: CredentialSource
    let onWithheld: @Sendable (CredentialWithheld) -> Void
  }

  private let service: Service
  private let table: CredentialConnectionTable
  private let limits: CredentialServer.Limits
  private let waiting: CredentialServer.Waiting?
  private let logger: Logger
  /// Makes the holder of a copy of the connection release it; nil: none.
  private var letGo: (@Sendable () -> Void)?

  private var context: ChannelHandlerContext?
  private var peer: CredentialPeer?
  private var state = State.asking(nil)
  /// Whether the source has still to answer.
  private var isAsking = false
  private(set) var hasEnded = false
  /// Whether its value must still be requested.
  var isWaiting: Bool { if case .asking = state { true } else { false } }

  init(
    _ service: Service, table: CredentialConnectionTable, limits: CredentialServer.Limits,
    waiting: CredentialServer.Waiting? = nil, letGo: (@Sendable () -> Void)? = nil, logger: Logger
  ) {
    self.service = service
    self.table = table
    self.limits = limits
    self.waiting = waiting
    self.letGo = letGo
    self.logger = logger
  }

  // MARK: the channel's life

  func handlerAdded(context: ChannelHandlerContext) {
    self.context = context
    table.enter(self)
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    self.context = nil
    end()
  }

  func channelActive(context: ChannelHandlerContext) {
    do throws(CredentialRefusal) {
      let peer = try peer(context)
      self.peer = peer
      ask(try service.judge(peer.name, peer.caller), context)
    } catch {
      refuse(error)
    }
  }

  private func peer(_ context: ChannelHandlerContext) throws(CredentialRefusal) -> CredentialPeer {
    do {
      let found = try context.channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
        of: NIOBSDSocket.Handle.self
      ) { try CredentialPeer(of: $0) }
      if let found { return found }
    } catch Peer.Failure.exhausted(let code) {
      throw .exhausted(code)
    } catch {}
    throw .unidentified
  }

  func channelInactive(context: ChannelHandlerContext) {
    if case .asking(let deadline) = state {
      deadline?.cancel()
      report(.ended)
    }
    state = .answered
    end()
    context.fireChannelInactive()
  }

  private func end() {
    hasEnded = true
    letGo?()
    letGo = nil
    // Closing early gives no caller more than its share: the connection is counted until the source has answered.
    if !isAsking { table.remove(self) }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard case .asking = state else { return }
    refuse(.talked)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    logger.debug("a connection for a credential failed: \(error)")
    context.close(promise: nil)
  }

  // MARK: asking

  private func ask(_ request: CredentialRequest, _ context: ChannelHandlerContext) {
    if let waiting, letGo == nil {
      letGo = try? context.channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
        of: NIOBSDSocket.Handle.self
      ) { waiting.keep($0) }
    }
    let limit = limits.answer
    let this = NIOLoopBound(self, eventLoop: context.eventLoop)
    let deadline = context.eventLoop.scheduleTask(in: TimeAmount(limit)) { this.value.refuse(.late(limit)) }
    state = .asking(deadline)
    isAsking = true
    let (source, loop) = (service.source, context.eventLoop)
    Task {
      let answer = await source(request)
      loop.execute { this.value.handle(answer) }
    }
  }

  private func handle(_ answer: Result<SecretText, RPCError>) {
    isAsking = false
    guard case .asking = state else {
      if hasEnded { table.remove(self) }
      return
    }
    switch answer {
    case .failure(let error): refuse(.denied(error))
    case .success(let secret):
      // Exposed because the service manager gets it.
      let bytes = ByteBuffer(string: secret.exposed)
      guard (1..<Self.tooLarge).contains(bytes.readableBytes) else {
        return refuse(.unusable(bytes: bytes.readableBytes))
      }
      // A descriptor can be passed on: the process was verified, not the current holder of the other end.
      guard peer?.isAlive == true else { return refuse(.ended) }
      send(bytes, within: limits.write)
    }
  }

  // MARK: answering

  func refuse(_ refusal: CredentialRefusal) {
    guard case .asking = state else { return }
    report(refusal)
    // It is not listened to any longer.
    if refusal == .talked { try? context?.channel.syncOptions?.setOption(.autoRead, value: false) }
    send(Self.refusal, within: refusal.isForeign ? limits.foreignWrite : limits.write)
  }

  /// Ends the connection once the other end has read everything, or has had its time to.
  private func send(_ bytes: ByteBuffer, within limit: Duration) {
    guard case .asking(let deadline) = state, let context else { return }
    deadline?.cancel()
    state = .answered
    let channel = context.channel
    let lingering = context.eventLoop.scheduleTask(in: TimeAmount(limit)) { channel.close(promise: nil) }
    let this = NIOLoopBound(self, eventLoop: context.eventLoop)
    let written = context.eventLoop.makePromise(of: Void.self)
    written.futureResult.whenComplete { result in
      lingering.cancel()
      if case .success = result { this.value.endOutput() }
      channel.close(promise: nil)
    }
    context.writeAndFlush(wrapOutboundOut(bytes), promise: written)
  }

  /// The other end sees the end at once, even if another process still holds the connection.
  private func endOutput() {
    guard letGo != nil else { return }
    _ = try? context?.channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
      of: NIOBSDSocket.Handle.self
    ) { shutdown($0, Int32(SHUT_WR)) }
  }

  /// The server ends and can wait no longer.
  func close() { context?.close(promise: nil) }

  private func report(_ refusal: CredentialRefusal) {
    let wanted = peer?.name
    if let cause = refusal.cause {
      service.onWithheld(
        .init(cause: cause, unit: wanted?.unit, id: wanted?.id, caller: peer?.caller, message: refusal.message))
    }
    var metadata: Logger.Metadata = ["reason": "\(refusal.reason)", "hint": "\(refusal.hint)"]
    if let wanted {
      metadata["unit"] = "\(wanted.unit)"
      metadata["credential"] = "\(wanted.id)"
    }
    if let caller = peer?.caller {
      metadata["caller_uid"] = "\(caller.uid)"
      metadata["caller_pid"] = "\(caller.pid)"
      if let unit = caller.unit { metadata["caller_unit"] = "\(unit.prefix(256))" }
    }
    var told = ""
    if refusal.isForeign {
      guard let others = table.refusals.refused(at: .now()) else { return }
      if others > 0 { told = " (\(others) more before it)" }
    }
    let what = wanted.map { "credential \($0.id) for \($0.unit)" } ?? "a credential"
    logger.warning("\(what) refused: \(refusal.message)\(told). \(refusal.hint)", metadata: metadata)
  }
}
