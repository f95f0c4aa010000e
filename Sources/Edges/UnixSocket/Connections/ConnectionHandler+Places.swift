import BrokerAPI
import Callers
import Glibc
import Listening
import Logging
import NIOCore
import Principals

/// The assignment of slots, evictions, and the messages for refused clients.
extension ConnectionHandler {
  /// Nil, or the reached limit: of connections, or of the holder's rate, as each connection costs as much as a line.
  func admit() -> String? {
    let now = NIODeadline.now()
    if let why = table.refusal(of: share, at: now) {
      table.countRefused()
      return why
    }
    client.pace = loop.rates.requests.pace(of: share, at: now)
    if share.isUnnamed, let due = client.pace?.ownDue(at: now) {
      return remember("\(share.holder) sends too much", until: min(due, now + ConnectionTable.remembered))
    }
    client.pace?.spend(requests: 1, bytes: 0)
    return acquirePlace().map { remember($0, until: now + ConnectionTable.remembered) }
  }

  /// The same reason, counted.
  private func remember(_ why: String, until: NIODeadline) -> String {
    table.remember(share, why, until: until)
    table.countRefused()
    return why
  }

  /// Those that are in the middle of a line lose their places first: the holder's own and, where places are taken that it
  /// shares with others, those of the holder with the most. Then it is the latter's that is idle for longest.
  private func acquirePlace() -> String? {
    guard var limit = table.acquirePlace(share) else { return nil }
    if makeRoom(limit.shortage) {
      guard let still = table.acquirePlace(share) else { return nil }
      limit = still
    }
    return "\(limit.text) are open"
  }

  private func makeRoom(_ shortage: Budget.Shortage) -> Bool {
    let own = share
    if giveUpUnfinished(where: { $0 == own }) { return true }
    guard let largest = table.largest(beside: own, shortage) else { return false }
    let isLargest = { (share: Share) in share.holder == largest && (shortage != .ofUnnamed || share.isUnnamed) }
    return giveUpUnfinished(where: isLargest)
      || loop.giveUpPlace(where: isLargest, "the connection was idle", \.idleSince)
      || loop.giveUpPlace(where: isLargest, "its replies were not read", \.unreadSince)
      || loop.giveUpPlace(where: isLargest, "its requests were waiting", \.waitingSince)
  }

  /// Connections with replies that are not read yet come last.
  private func giveUpUnfinished(where isMeant: (Share) -> Bool) -> Bool {
    loop.giveUpPlace(where: isMeant, "the line was not finished", \.unfinishedSince)
      || loop.giveUpPlace(where: isMeant, "the line was not finished", \.unfinishedUnreadSince)
  }

  /// The turn in which the line began that is not finished; nil: there is none, requests run, or replies are unread.
  private var unfinishedSince: UInt64? { outgoing.count == 0 ? unfinishedUnreadSince : nil }

  private var unfinishedUnreadSince: UInt64? {
    guard let connection, state.isServed, isInsideLine, connection.running == 0 else { return nil }
    return clock.unfinished?.since
  }

  /// The turn since which nothing was asked; nil: requests run, replies are unread, or events are sent to it.
  private var idleSince: UInt64? { outgoing.count == 0 ? unreadSince : nil }

  private var unreadSince: UInt64? {
    guard let connection, state.isServed, connection.running == 0, !connection.isHeldOpen else { return nil }
    return clock.lastActive
  }

  /// The turn since which its requests wait; nil: none runs, or events are sent to it.
  private var waitingSince: UInt64? {
    guard let connection, state.isServed, connection.running > 0, !connection.isHeldOpen else { return nil }
    return clock.lastActive
  }

  /// Another connection gets its place now.
  func giveUpPlace(_ why: String) {
    table.countRefused()
    releaseMemory()
    connection?.ended(hasDescriptor: false)
    connection = nil
    tokens = nil
    // It is counted nowhere any more: it does not wait for its client to read.
    guard outgoing.count == 0 else { return close() }
    refuse(RPCError(.overloaded, "\(why), and too many connections are open"))
    if !state.isAbsorbing { close() }
  }

  func refuse(tooMany limit: String) {
    table.countHeldBack(.connections, share)
    if let others = table.refused(at: .now()) {
      shared.logger.warning(
        "a connection was refused: \(limit)\(others > 0 ? "; \(others) more before it" : "")",
        metadata: ["uid": "\(client.uid)"])
    }
    refuse(Self.tooMany(limit))
  }

  static func tooMany(_ limit: String) -> RPCError { RPCError(.overloaded, "too many connections: \(limit)") }

  func refuse(_ failure: Peer.Failure) {
    switch failure {
    case .unidentified:
      shared.logger.warning("a connection was refused: the kernel does not say whose it is")
      close()
    case .exhausted(let code):
      loop.pauseAccepting(code)
      refuse(RPCError(.overloaded, "the caller cannot be identified: \(String(cString: strerror(code)))"))
    }
  }

  /// The service manager reads a credential where programs ask: nothing, and any answer of ours, would be the credential.
  func refuse(_ wanted: CredentialName) {
    if let others = table.refused(at: .now()) {
      let before = others > 0 ? " (\(others) more refused before it)" : ""
      shared.logger.warning(
        "credential \(wanted.id) for \(wanted.unit) refused: LoadCredential= must name credentials.sock\(before)",
        metadata: ["uid": "\(client.uid)", "unit": "\(wanted.unit)"])
    }
    let times = CredentialServer.Limits()
    let isManagers = [0, geteuid()].contains(client.uid)
    outgoing.write(CredentialHandler.refusal)
    end(state.refuse(mayAbsorb: false), within: isManagers ? times.write : times.foreignWrite)
  }

  func refuse(_ error: RPCError) {
    outgoing.write(loop.refused.line(refusing: error))
    end(state.refuse(mayAbsorb: loop.refused.startAbsorbing(of: share)), within: limits.linger)
  }

  /// The input of a refused client.
  func absorb() {
    let (count, _) = loop.buffers.receive(from: socket, withoutDescriptors: client.mayReceiveDescriptors)
    guard count > 0 ? state.absorbed(count) : count < 0 && errno == EAGAIN else { return close() }
    send()
    watch()
  }
}
