import Broker
import BrokerAPI
import Glibc
import Logging
import OAuth
import Principals
import Sealing
import Synchronization
import Systemd
import UnixSignals
import UnixSocket

/// A locked broker: it opens no database, has no key, and answers only how it is and whether a passphrase is right.
struct LockedServing: Sendable {
  let key: LockedKey
  let again: StartingAgain
  let notifier: Notifier
  let logger: Logger

  /// Until it is unlocked, or stopped by a signal.
  ///
  /// - Parameter file: the configuration file; nil: built-in defaults.
  func run(
    _ configuration: SocketServer.Configuration, store: String, file: String?, until signals: UnixSignalsSequence
  ) async throws {
    // A process that ended while it locked has left it; it was read to be compared, so this process ends with it.
    if key.removeKeyFile() { again.perform(logger) }
    let dispatcher = LockedDispatcher(key: key, store: store, file: file)
    let server = SocketServer(configuration: configuration, dispatcher: dispatcher, logger: logger)
    do throws(SocketServerError) {
      try await server.start()
    } catch {
      throw DaemonFailure(message: error.description, hint: error.hint, status: error.isConfiguration ? 78 : 1)
    }
    let watchdog = WatchdogInterval.current().flatMap { interval in
      server.repeating(every: interval / 2) { [notifier] in notifier.watchdog() }
    }
    defer { watchdog?.cancel() }
    notifier.ready(status: LockedDispatcher.summary)
    logger.notice("locked", metadata: ["hint": "Unlock it with `grantctl unlock`."])
    // A reload has nothing to reload; the unlock reads the configuration.
    for await signal in signals where signal != .sighup { break }
    if dispatcher.isUnlocked { notifier.status("unlocking") } else { notifier.stopping(status: "stopping") }
    await server.drain(deadline: Daemon.callersDrainTime)
    if dispatcher.isUnlocked { again.perform(logger) }
    logger.notice("stopped")
    await notifier.settle(within: .seconds(1))
  }
}

final class LockedDispatcher: Dispatcher {
  static let summary = "locked"
  private static let hint = "Unlock it with `grantctl unlock`."
  /// After a wrong passphrase, before the answer.
  private static let pause = Duration.seconds(1)

  private enum State { case idle, trying, unlocked }

  private let key: LockedKey
  private let store: String
  private let file: String?
  private let state = Mutex(State.idle)
  private let startedAt = Live.system.now().seconds

  init(key: LockedKey, store: String, file: String?) {
    self.key = key
    self.store = store
    self.file = file
  }

  var isUnlocked: Bool { state.withLock { $0 == .unlocked } }

  private final class NoTokens: CachedTokens {
    func reply(account: UnsafeRawBufferPointer, minTTL: Int64?, scopes: UnsafeRawBufferPointer?) -> CachedReply? { nil }
  }

  func cachedTokens(for principal: Principal) -> any CachedTokens { NoTokens() }

  func callerClass(of principal: Principal) -> CallerClass { mayUnlock(principal) ? .privileged : .unnamed }

  private func mayUnlock(_ caller: Principal) -> Bool {
    switch caller {
    case .process(let process): process.uid == geteuid() || process.uid == 0
    // Only the socket is open.
    case .unit, .peer: false
    }
  }

  func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> {
    session.decided()
    guard Methods.named(request.method) != nil else { return .failure(Methods.notFound(request.method)) }
    guard mayUnlock(session.principal) else {
      return .failure(RPCError(.notPermitted, "\(session.principal.user) may not call \(request.method)"))
    }
    do throws(RPCError) {
      switch request.method {
      case BrokerStatus.name: return .success(JSON(encoding: status(for: session.principal)))
      case BrokerLock.name: return .success(JSON(encoding: BrokerLock.Result(state: "locked")))
      case BrokerUnlock.name:
        try await unlock(decodeParams(BrokerUnlock.self, from: request.params))
        return .success(JSON(encoding: BrokerUnlock.Result(state: "unlocking")))
      default: throw RPCError(.locked, "the broker is locked", hint: Self.hint)
      }
    } catch {
      return .failure(error)
    }
  }

  private func status(for caller: Principal) -> BrokerStatus.Result {
    BrokerStatus.Result(
      version: GrantdVersion.current, instance: "user", pid: getpid(), state: "locked", started_at: startedAt,
      summary: Self.summary, accounts: [:], providers: 0, pending_logins: 0, callback: [],
      store: .init(path: store, state: "locked", message: nil),
      configuration: .init(path: file, loaded_at: startedAt),
      caller: caller.uid.map { .init(uid: Int64($0), access: [:]) },
      hold: .init(since: startedAt, uid: nil, hint: Self.hint))
  }

  private func unlock(_ params: BrokerUnlock.Params) async throws(RPCError) {
    guard let passphrase = params.passphrase else {
      throw .invalidParams("the passphrase is missing", hint: Self.hint)
    }
    // One at a time: each takes 64 MiB, and a user tries few.
    let isFirst = state.withLock { state in
      guard state == .idle else { return false }
      state = .trying
      return true
    }
    guard isFirst else {
      throw RPCError(.rateLimited, "another passphrase is being tried", retryAfter: 1)
    }
    // Exposed to be put into the same type of another room.
    let secret = Secret(passphrase.exposed)
    let failure = await Task.detached { [key] () -> LockedKey.Failure? in
      do throws(LockedKey.Failure) {
        try key.unlock(secret)
        return nil
      } catch { return error }
    }.value
    guard let failure else {
      state.withLock { $0 = .unlocked }
      kill(getpid(), SIGTERM)
      return
    }
    await Live.system.sleep(Self.pause)
    state.withLock { $0 = .idle }
    throw RPCError(failure)
  }
}
