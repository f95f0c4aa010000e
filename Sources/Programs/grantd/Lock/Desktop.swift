import Broker
import BrokerAPI
import Glibc
import GrantdConfiguration
import Logging
import Principals
import Synchronization
import SystemEvents

/// A watch of the user's sessions.
protocol SessionSignals: Sendable {
  /// The suspend need not wait any longer.
  func proceed()
  func close()
}

extension SessionWatch: SessionSignals {}

/// The desktop of a user's broker: it locks before a suspend and with the screen (`[lock]`), and shows notices (`[notify]`).
final class Desktop: Sendable {
  /// Watches the user's sessions until ``SessionSignals/close()``; `delays`: whether a suspend waits.
  typealias Watch =
    @Sendable (
      _ delays: Bool, _ tell: @escaping @Sendable (SessionWatch.Signal) -> Void
    ) -> any SessionSignals
  /// Shows a notice, and calls `shown` once, with whether the desktop took it.
  typealias Show =
    @Sendable (
      _ title: String, _ body: String, _ shown: @escaping @Sendable (Bool) -> Void
    ) -> Void

  private struct State {
    var lock = Settings.LockSettings()
    var notices = NoticeBudget()
    var isNotifying = true
    var watch: (any SessionSignals)?
    /// Nil before the start, and in the system instance.
    var broker: Broker?
  }

  private let logger: Logger
  private let openWatch: Watch
  private let show: Show
  private let uptime: @Sendable () -> Duration
  private let state = Mutex(State())

  init(
    logger: Logger, watch: @escaping Watch = { SessionWatch(of: geteuid(), delays: $0, $1) },
    show: @escaping Show = Desktop.notices(), uptime: @escaping @Sendable () -> Duration = { Live.uptime() }
  ) {
    self.logger = logger
    openWatch = watch
    self.show = show
    self.uptime = uptime
  }

  /// Notices on the desktop of the session.
  static func notices() -> Show {
    let notices = DesktopNotices()
    return { title, body, shown in notices.show(title, body, shown: shown) }
  }

  func begin(_ broker: Broker, _ settings: Settings) {
    state.withLock { $0.broker = broker }
    configure(settings)
  }

  /// At the start, and after each reload.
  func configure(_ settings: Settings) {
    let old = state.withLock { state -> (any SessionSignals)? in
      guard state.broker != nil else { return nil }
      state.isNotifying = settings.notify.isEnabled
      guard settings.lock != state.lock || state.watch == nil else { return nil }
      state.lock = settings.lock
      defer { state.watch = watch(settings.lock) }
      return state.watch
    }
    old?.close()
  }

  func close() {
    let watch = state.withLock { state in
      state.broker = nil
      return state.watch.take()
    }
    watch?.close()
  }

  private func watch(_ settings: Settings.LockSettings) -> (any SessionSignals)? {
    guard settings.onSuspend || settings.onScreenLock else { return nil }
    return openWatch(settings.onSuspend) { [weak self] signal in
      if let cause = Self.cause(signal, settings) { self?.lock(cause) }
    }
  }

  /// Why the broker locks at this signal; nil: it does not.
  static func cause(_ signal: SessionWatch.Signal, _ settings: Settings.LockSettings) -> String? {
    switch signal {
    case .suspends: settings.onSuspend ? "the machine is about to suspend" : nil
    case .screenLocked: settings.onScreenLock ? "the screen is locked" : nil
    }
  }

  private func lock(_ cause: String) {
    guard let broker = state.withLock({ $0.broker }) else { return }
    Task {
      do throws(RPCError) {
        try await broker.lock(
          because: cause, by: .process(Caller(uid: geteuid(), gid: getegid(), groups: [], pid: getpid())))
      } catch {
        logger.error("not locked: \(error.message)", metadata: ["hint": "\(error.hint ?? "")"])
        // Else the suspend would wait for nothing.
        state.withLock { $0.watch }?.proceed()
      }
    }
  }

  /// Called with each event; waits for nothing.
  func handle(_ event: Event) {
    guard let (title, body) = Self.notice(of: event) else { return }
    let now = uptime()
    let isShown = state.withLock { state in
      state.broker != nil && state.isNotifying
        && state.notices.acquire("\(event.type.rawValue) \(event.account ?? "")", at: now)
    }
    guard isShown else { return }
    show(title, body) { [logger] isTaken in
      if !isTaken { logger.debug("no desktop shows notices") }
    }
  }

  /// Nil: nothing that a user has to do.
  private static func notice(of event: Event) -> (title: String, body: String)? {
    switch event.type {
    case .loginRequired:
      let account = event.account ?? ""
      return (
        "Sign in again: \(account)", "grantctl login \(event.provider ?? "PROVIDER") \(account)"
      )
    case .releaseWaiting:
      guard let release = event.release else { return nil }
      return ("A program asks for \(release.account)", "grantctl approve \(release.id)")
    case .scopesRequired:
      let account = event.account ?? ""
      let message = event.message ?? "a server requires more access"
      return ("Sign in again: \(account)", "\(message): grantctl login \(event.provider ?? "PROVIDER") \(account)")
    case .tokenRefreshed, .tokenFailed, .scopesLost, .loginStarted, .loginActionRequired, .loginCompleted, .loginFailed,
      .accountRemoved, .refreshTokenExpiring, .releaseEnded, .providerUnreachable,
      .providerRecovered, .storeFailed, .storeRecovered, .clockStepped, .fileWritten, .configurationReloaded:
      return nil
    }
  }
}

/// How many notices a user gets: a program that asks again and again must not cover the desktop.
struct NoticeBudget {
  static let most = 10
  static let interval = Duration.seconds(600)
  /// Between two notices of the same account and cause.
  static let repetition = Duration.seconds(60)

  private var shown: [(name: String, at: Duration)] = []

  mutating func acquire(_ name: String, at now: Duration) -> Bool {
    shown.removeAll { now - $0.at >= Self.interval }
    guard shown.count < Self.most, !shown.contains(where: { $0.name == name && now - $0.at < Self.repetition }) else {
      return false
    }
    shown.append((name, now))
    return true
  }
}
