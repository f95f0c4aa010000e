import Callers
public import NIOCore
import NIOPosix
import Principals
import Synchronization

/// One connection, from accept to its end. Nothing is parsed before it has a slot (``begin(_:)``).
public final class HTTPConnection: Sendable {
  /// The progress of its request, ordered by the loss at closing.
  public enum Progress: UInt8, Comparable {
    /// The last answer was sent, or it is closed.
    case over
    /// Not a byte of a request has come.
    case silent
    case inHead
    /// Its head was read, and its body is being read.
    case inBody
    /// The same, and it is passed on as it arrives.
    case uploading
    /// The last answer is being sent.
    case answering
    case handling

    public static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
  }

  /// Who is at the other end, as the kernel said at accept.
  enum Origin: Sendable {
    case process(Caller)
    case peer(LoopbackPeer)
    /// There was no descriptor or memory to identify the process.
    case unidentified(uid: UInt32)
    /// No process here has the other end: it ended, or is in another network namespace.
    case nobody
  }

  public let channel: any Channel
  let origin: Origin
  private let served: NIOLoopBound<ServedConnections>
  private let state = Atomic(Progress.silent.rawValue)
  /// Since when it has been that, in nanoseconds of the loops' clock.
  private let since = Atomic(NIODeadline.now().uptimeNanoseconds)

  /// Where its caller is remembered if it gets no place.
  private let refused: RefusedCallers?

  /// - Parameter refused: nil: not remembered.
  init(
    _ channel: any Channel, _ origin: Origin, _ served: NIOLoopBound<ServedConnections>,
    _ refused: RefusedCallers? = nil
  ) {
    self.channel = channel
    self.origin = origin
    self.served = served
    self.refused = refused
  }

  /// A TCP connection.
  convenience init(_ channel: any Channel, _ served: NIOLoopBound<ServedConnections>) {
    self.init(channel, Self.peer(of: channel).map(Origin.peer) ?? .nobody, served)
  }

  public var progress: Progress { Progress(rawValue: state.load(ordering: .relaxed)) ?? .over }

  /// Since when it has nothing to do; nil: a request is being handled.
  var idle: NIODeadline? {
    progress <= .inHead ? .uptimeNanoseconds(since.load(ordering: .relaxed)) : nil
  }

  /// On its event loop. False: its place was taken away (``close(upTo:)``).
  @discardableResult
  func record(_ progress: Progress, since: NIODeadline) -> Bool {
    self.since.store(since.uptimeNanoseconds, ordering: .relaxed)
    let known = state.load(ordering: .relaxed)
    guard known != Progress.over.rawValue || progress == .over else { return false }
    return state.compareExchange(expected: known, desired: progress.rawValue, ordering: .acquiringAndReleasing)
      .exchanged
  }

  /// Since when the client has sent a request without an end to it; nil: no request is being read.
  var incomplete: NIODeadline? {
    (.inHead ... .uploading).contains(progress) ? .uptimeNanoseconds(since.load(ordering: .relaxed)) : nil
  }

  /// Closes it unless its request has come further than this; then none will be handled. From anywhere.
  func close(upTo most: Progress) -> Bool {
    let known = state.load(ordering: .relaxed)
    guard let progress = Progress(rawValue: known), progress <= most,
      state.compareExchange(expected: known, desired: Progress.over.rawValue, ordering: .acquiringAndReleasing)
        .exchanged
    else { return false }
    close()
    return true
  }

  /// Whose it is, as far as the kernel said at accept.
  var holder: Holder {
    switch origin {
    case .process(let caller): caller.holder
    case .peer(let peer): .ofUser(peer.uid)
    case .unidentified(let uid): .ofUser(uid)
    case .nobody: .user(.max)
    }
  }

  /// Serves it from now on. On its event loop.
  public func begin(_ conversation: any HTTPConversation) {
    begin(conversation, caller: nil, of: Share(holder: holder, callerClass: .privileged), peer: nil)
  }

  func begin(_ conversation: any HTTPConversation, caller: Caller?, of share: Share, peer: LoopbackPeer?) {
    do {
      try served.value.begin(self, conversation, caller, of: share, peer: peer)
    } catch {
      close()
    }
  }

  public func close() { channel.close(promise: nil) }

  /// There is no place for it.
  func refuse(_ share: Share) {
    refused?.add(share)
    close()
  }

  /// Its place is free.
  func releasePlace(of share: Share) { refused?.remove(share) }

  // MARK: Who is at the other end. On the connection's event loop

  /// The user of a TCP connection's other end, as the kernel reported at accept, before a fast client closed its end;
  /// without a report, as it reports now. Nil: no process has that end open.
  public var user: UInt32? {
    if case .peer(let peer) = origin { return peer.uid }
    return Self.peer(of: channel)?.uid
  }

  /// Whether no reset has closed a TCP connection.
  public var isConnected: Bool { Self.withDescriptor(of: channel, LoopbackPeer.isConnected) ?? false }

  static func peer(of channel: any Channel) -> LoopbackPeer? {
    guard let own = channel.localAddress, let other = channel.remoteAddress else { return nil }
    let peer = withDescriptor(of: channel) { descriptor in
      own.withSockAddr { own, _ in
        other.withSockAddr { other, _ in LoopbackPeer(of: descriptor, own: own, other: other) }
      }
    }
    return peer ?? nil
  }

  private static func withDescriptor<Result>(of channel: any Channel, _ ask: (Int32) -> Result) -> Result? {
    let answer = try? channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(
      of: NIOBSDSocket.Handle.self, ask)
    return answer ?? nil
  }
}
