import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

/// That no token is released: the hold of a system's broker, and the first step of the lock of a user's (decision 74).
///
/// A hold is on disk, so that a restart does not end it. The lock is known to ``KeyLock``.
@BrokerActor
final class Hold: Piece {
  /// Token files are removed within this time.
  private static let removal = Duration.seconds(5)
  private static let step = Duration.milliseconds(10)
  private static let recordKey = "releases.hold"

  private struct Record {
    var since: Int64
    var uid: UInt32

    var text: String { "\(since) \(uid)" }

    init(since: Int64, uid: UInt32) { (self.since, self.uid) = (since, uid) }

    /// Nil: nothing is held.
    init?(_ text: String) {
      let parts = text.split(separator: " ")
      guard parts.count == 2, let since = Int64(parts[0]), let uid = UInt32(parts[1]) else { return nil }
      self.init(since: since, uid: uid)
    }
  }

  let runtime: Runtime
  private let journal: Journal
  private let authorizer: Authorizer
  private let approvals: Approvals
  private let files: FileReleases
  private var record: Record?
  private let keyLock: (any KeyLock)?
  private var isLocking = false

  /// - Parameter keyLock: the lock of a user's broker; nil: there is only the hold.
  init(
    _ runtime: Runtime, journal: Journal, authorizer: Authorizer, approvals: Approvals, files: FileReleases,
    keyLock: (any KeyLock)?
  ) {
    self.runtime = runtime
    self.journal = journal
    self.authorizer = authorizer
    self.approvals = approvals
    self.files = files
    self.keyLock = keyLock
  }

  /// A hold of an earlier run goes on. Before the first request.
  func takeOver() {
    record = journal.values[Self.recordKey].flatMap(Record.init)
    if record != nil { authorizer.inForce.hold(true) }
  }

  var view: BrokerStatus.HoldView? {
    record.map { .init(since: $0.since, uid: Int64($0.uid), hint: Self.hint) }
  }

  nonisolated static let hint = "An administrator can end the hold with `grantctl unlock`."

  func begin(_ passphrase: SecretText?, by caller: Principal) async throws(RPCError) -> BrokerLock.Result {
    guard let keyLock else { return try await hold(passphrase, by: caller) }
    guard !isLocking else { return .init(state: "locking") }
    isLocking = true
    let warnings: [String]
    do throws(RPCError) {
      warnings = try await keyLock.prepare(passphrase)
    } catch {
      isLocking = false
      throw error
    }
    let left = await stopReleases()
    logger.notice("locking: exchanges are completed first", metadata: ["uid": "\(caller.uidText)"])
    keyLock.lock()
    return .init(state: "locking", warnings: warnings + left)
  }

  private func hold(_ passphrase: SecretText?, by caller: Principal) async throws(RPCError) -> BrokerLock.Result {
    guard passphrase == nil else {
      throw .invalidParams("the system instance holds releases without a passphrase")
    }
    guard record == nil else { return .init(state: "held") }
    let record = Record(since: now.seconds, uid: try caller.owner())
    self.record = record
    await journal.put(Self.recordKey, record.text, "the hold of all releases")
    let left = await stopReleases()
    logger.notice("all releases are held", metadata: ["uid": "\(caller.uidText)", "hint": "\(Self.hint)"])
    return .init(state: "held", warnings: left)
  }

  func end(by caller: Principal) async -> BrokerUnlock.Result {
    guard record != nil else { return .init(state: "running") }
    await journal.put(Self.recordKey, "", "the end of the hold")
    record = nil
    authorizer.inForce.hold(false)
    waiters.wakeAccounts()
    logger.notice("releases are no longer held", metadata: ["uid": "\(caller.uidText)"])
    return .init(state: "released")
  }

  /// Earlier decisions and cached replies count no more when this returns, and token files are removed.
  ///
  /// - Returns: files that are still there, for people.
  private func stopReleases() async -> [String] {
    authorizer.inForce.hold(true)
    approvals.policyChanged()
    waiters.wakeAccounts()
    let end = uptime + Self.removal
    while !files.present.isEmpty, uptime < end { await system.sleep(Self.step) }
    return files.present.map { "token file \($0) could not be removed" }
  }
}

extension BrokerLock: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.hold.begin(call.params.passphrase, by: call.caller)
  }
}

extension BrokerUnlock: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    await broker.tokens.hold.end(by: call.caller)
  }
}
