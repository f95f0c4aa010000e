import BrokerAPI
import Callers
import Logging
import NIOCore
import NIOPosix

/// Places by holder: an idle connection of a holder makes room for its next one, and of the one who has the most for
/// another holder's.
final class HolderPlaces: HTTPPlaces {
  private struct Open {
    let connection: HTTPConnection
    let holder: Holder
  }

  private let application: any CallerApplication
  private let logger: Logger
  private let loop: any EventLoop
  private let callers = LoopbackCallers(groups: HTTPServer.groups)
  private var open: [ObjectIdentifier: Open] = [:]
  private var shares: Shares
  /// Connections whose caller is looked for, by user: one look at a time, so that one user keeps one thread at most.
  private var lookups: [Holder: [() -> Void]] = [:]
  private var isClosed = false

  init(_ application: any CallerApplication, _ limits: HTTPServer.Limits, on loop: any EventLoop, _ logger: Logger) {
    self.application = application
    self.logger = logger
    self.loop = loop
    shares = Shares(all: limits.connections, perHolder: limits.connectionsPerHolder)
  }

  // MARK: Who calls

  func accepted(_ connection: HTTPConnection) {
    switch connection.origin {
    case .process(let caller): begin(connection, caller, of: caller.holder, peer: nil)
    case .peer(let peer) where application.identifiesCallers: identify(peer, connection)
    case .peer(let peer): begin(connection, nil, of: callers.holder(of: peer), peer: nil)
    case .nobody where !application.identifiesCallers: begin(connection, nil, of: .user(.max), peer: nil)
    case .nobody: connection.close()
    }
  }

  /// - Parameter isSearched: its unit was looked for. Where that could not be done, it has none.
  private func identify(_ peer: LoopbackPeer, _ connection: HTTPConnection, isSearched: Bool = false) {
    if let caller = callers.known(peer) ?? (isSearched ? callers.withoutUnit(peer) : nil) {
      return begin(connection, caller, of: caller.holder, peer: peer)
    }
    // Of one holder's connections one is looked up at a time. The others wait, and have their places already.
    let holder = callers.holder(of: peer)
    guard takePlace(holder) else { return connection.close() }
    func again(isSearched: Bool) -> () -> Void {
      { [self] in
        shares.giveBack(of: holder)
        identify(peer, connection, isSearched: isSearched)
      }
    }
    if lookups[holder] != nil {
      lookups[holder]?.append(again(isSearched: false))
      return
    }
    lookups[holder] = [again(isSearched: true)]
    let callers = self.callers
    NIOThreadPool.singleton.runIfActive(eventLoop: loop) { _ = callers.find(peer) }.assumeIsolated().whenComplete {
      [self] _ in
      for again in lookups.removeValue(forKey: holder) ?? [] { again() }
    }
  }

  // MARK: Places

  private func takePlace(_ holder: Holder) -> Bool {
    for _ in 0..<2 {
      switch shares.take(for: holder) {
      case nil: return true
      case .ofHolder: guard closeIdle(of: holder) else { return false }
      case .ofUser: guard closeIdle(of: shares.largestUnit(beside: holder) ?? holder) else { return false }
      case .ofAll: guard let largest = shares.largest(beside: holder), closeIdle(of: largest) else { return false }
      }
    }
    return false
  }

  /// Closes the connection of a holder that has been idle the longest; false: none is.
  private func closeIdle(of holder: Holder) -> Bool {
    var idle = open.values.filter { $0.holder == holder }
      .compactMap { one in one.connection.idle.map { (one.connection, $0) } }
    while let index = idle.indices.min(by: { idle[$0].1 < idle[$1].1 }) {
      let longest = idle.remove(at: index).0
      // A request of it may have come since.
      guard longest.closeIfIdle() else { continue }
      ended(longest)
      return true
    }
    return false
  }

  /// Its place is free.
  func ended(_ connection: HTTPConnection) {
    guard let one = open.removeValue(forKey: ObjectIdentifier(connection)) else { return }
    shares.giveBack(of: one.holder)
  }

  private func begin(_ connection: HTTPConnection, _ caller: Caller?, of holder: Holder, peer: LoopbackPeer?) {
    // It was closed while its unit was looked for.
    guard connection.progress != .over else { return }
    guard !isClosed, takePlace(holder) else {
      logger.debug("a connection was refused: too many at once", metadata: ["holder": "\(holder)"])
      return connection.close()
    }
    open[ObjectIdentifier(connection)] = Open(connection: connection, holder: holder)
    let application = self.application
    @Sendable func begin() {
      connection.begin(application.conversation(with: caller), caller: caller, peer: peer)
    }
    // On the same loop at once: nothing is gained by another turn.
    connection.channel.eventLoop.inEventLoop ? begin() : connection.channel.eventLoop.execute(begin)
  }

  func close() { isClosed = true }
}
