import Callers
import Logging
import NIOCore
import NIOPosix
import Principals

/// Places by holder. For a holder's next connection its longest idle one is closed; for another holder's one of the holder
/// with the most: the longest idle one, else the one that has been sending a request for the longest time.
final class HolderConnectionLimits: ConnectionLimits {
  private struct Open {
    let connection: HTTPConnection
    let share: Share
  }

  private let application: any CallerApplication
  private let logger: Logger
  private let loop: any EventLoop
  private let callers = LoopbackCallers(groups: HTTPServer.groups)
  private var open: [ObjectIdentifier: Open] = [:]
  private var budget: Budget
  /// Connections whose caller is looked for, by user: one look at a time, so that one user keeps one thread at most.
  private var lookups: [Holder: [() -> Void]] = [:]
  private var isClosed = false

  init(_ application: any CallerApplication, _ limits: HTTPServer.Limits, on loop: any EventLoop, _ logger: Logger) {
    self.application = application
    self.logger = logger
    self.loop = loop
    budget = Budget(limits.places)
  }

  // MARK: Who calls

  func accepted(_ connection: HTTPConnection) {
    switch connection.origin {
    case .process(let caller): begin(connection, caller, of: share(of: caller), peer: nil)
    case .peer(let peer) where application.identifiesCallers: identify(peer, connection)
    case .peer(let peer): begin(connection, nil, of: share(callers.holder(of: peer)), peer: nil)
    case .unidentified(let uid) where application.identifiesCallers: refuseUnidentified(connection, .ofUser(uid))
    case .unidentified(let uid): begin(connection, nil, of: share(.ofUser(uid)), peer: nil)
    case .nobody where !application.identifiesCallers: begin(connection, nil, of: share(.user(.max)), peer: nil)
    case .nobody: connection.close()
    }
  }

  private func share(of caller: Caller) -> Share {
    Share(holder: caller.holder, callerClass: application.callerClass(of: caller))
  }

  /// The share of a caller that the policy does not know.
  private func share(_ holder: Holder) -> Share { Share(holder: holder, callerClass: .named) }

  /// - Parameter isSearched: its unit was looked for.
  private func identify(_ peer: LoopbackPeer, _ connection: HTTPConnection, isSearched: Bool = false) {
    if let caller = callers.known(peer, at: NIODeadline.now().sinceBoot) {
      return begin(connection, caller, of: share(of: caller), peer: peer)
    }
    // The search could not be completed: a rule may be for the caller's unit.
    if isSearched { return refuseUnidentified(connection, callers.holder(of: peer)) }
    // One connection of a holder is looked up at a time. The others wait, and have their places already.
    let holder = callers.holder(of: peer)
    let waiting = share(holder)
    // Not remembered: the share of an identified caller may be another one.
    guard admit(waiting) else { return connection.close() }
    func again(isSearched: Bool) -> () -> Void {
      { [self] in
        budget.giveBack(1, of: waiting)
        identify(peer, connection, isSearched: isSearched)
      }
    }
    if lookups[holder] != nil {
      lookups[holder]?.append(again(isSearched: false))
      return
    }
    lookups[holder] = [again(isSearched: true)]
    let callers = self.callers
    NIOThreadPool.singleton.runIfActive(eventLoop: loop) { _ = callers.find(peer, at: NIODeadline.now().sinceBoot) }
      .assumeIsolated().whenComplete { [self] _ in
        for again in lookups.removeValue(forKey: holder) ?? [] { again() }
      }
  }

  /// Answers that the caller cannot be identified now. It needs a place for that, as callers without a rule do.
  private func refuseUnidentified(_ connection: HTTPConnection, _ holder: Holder) {
    begin(connection, nil, of: Share(holder: holder, callerClass: .unnamed), peer: nil, isIdentified: false)
  }

  // MARK: Places

  private func admit(_ share: Share) -> Bool {
    for _ in 0..<2 {
      guard let shortage = budget.acquire(1, for: share) else { return true }
      let makesRoom =
        switch shortage {
        case .ofHolder: closeIdle(of: share.holder)
        case .ofUser, .ofUnnamed, .ofAll: closeOne(of: budget.largest(beside: share, shortage), beside: share.holder)
        }
      guard makesRoom else { return false }
    }
    return false
  }

  /// For the place of another holder.
  private func closeOne(of largest: Holder?, beside holder: Holder) -> Bool {
    guard let largest else { return closeIdle(of: holder) }
    return closeIdle(of: largest) || close(of: largest, upTo: .uploading, \.incomplete)
  }

  /// Closes the connection of a holder that has been idle the longest; false: none is.
  private func closeIdle(of holder: Holder) -> Bool { close(of: holder, upTo: .inHead, \.idle) }

  /// Closes the connection of a holder that is the oldest by this time.
  private func close(
    of holder: Holder, upTo most: HTTPConnection.Progress, _ since: (HTTPConnection) -> NIODeadline?
  ) -> Bool {
    var candidates = open.values.filter { $0.share.holder == holder }
      .compactMap { one in since(one.connection).map { (one.connection, $0) } }
    while let index = candidates.indices.min(by: { candidates[$0].1 < candidates[$1].1 }) {
      let oldest = candidates.remove(at: index).0
      // It may have come further since.
      guard oldest.close(upTo: most) else { continue }
      ended(oldest)
      return true
    }
    return false
  }

  /// Its place is free.
  func ended(_ connection: HTTPConnection) {
    guard let one = open.removeValue(forKey: ObjectIdentifier(connection)) else { return }
    budget.giveBack(1, of: one.share)
    connection.releasePlace(of: one.share)
  }

  private func begin(
    _ connection: HTTPConnection, _ caller: Caller?, of share: Share, peer: LoopbackPeer?, isIdentified: Bool = true
  ) {
    // It was closed while its unit was looked for.
    guard connection.progress != .over else { return }
    guard !isClosed, admit(share) else {
      logger.debug("a connection was refused: too many at once", metadata: ["holder": "\(share.text)"])
      return connection.refuse(share)
    }
    open[ObjectIdentifier(connection)] = Open(connection: connection, share: share)
    let application = self.application
    @Sendable func begin() {
      let conversation: any HTTPConversation =
        isIdentified ? application.conversation(with: caller) : UnidentifiedConversation()
      connection.begin(conversation, caller: caller, of: share, peer: peer)
    }
    // On the same loop at once: nothing is gained by another turn.
    connection.channel.eventLoop.inEventLoop ? begin() : connection.channel.eventLoop.execute(begin)
  }

  func close() { isClosed = true }
}
