import Broker
import Callback
import Foundation
import Grants
import Logging
import NIOPosix
import Synchronization

/// Answers every callback and every logout token with one outcome, at once or when it is let go, and notes what it was
/// asked.
final class ScriptedHandler: CallbackHandler {
  struct Logout: Sendable, Equatable {
    var provider: String
    var form: String
  }

  struct Opened: Sendable, Equatable {
    var token: String
    var browser: BrowserUser
  }

  private struct State {
    var urls: [String] = []
    var browsers: [BrowserUser] = []
    var links: [Opened] = []
    /// The requests that asked whether a fragment is expected.
    var asked: [String] = []
    var logouts: [Logout] = []
    /// Callbacks, opened links and logouts.
    var count: Int { urls.count + links.count + logouts.count }
    var isOpen: Bool
    var held: [CheckedContinuation<Void, Never>] = []
    var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    var wasCancelled = false
  }

  private let outcome: CallbackOutcome
  private let awaitsFragments: Bool
  private let logoutOutcome: LogoutOutcome
  private let opening: LoginOpening
  private let state: Mutex<State>

  init(
    _ outcome: CallbackOutcome = .done(account: "ann", provider: "demo"), logout: LogoutOutcome = .taken,
    opening: LoginOpening = .spent(again: "grantctl login"), holds: Bool = false, awaitsFragments: Bool = false
  ) {
    self.opening = opening
    self.outcome = outcome
    self.awaitsFragments = awaitsFragments
    logoutOutcome = logout
    state = Mutex(State(isOpen: !holds))
  }

  var urls: [String] { state.withLock { $0.urls } }
  /// Whose each callback was.
  var browsers: [BrowserUser] { state.withLock { $0.browsers } }
  var links: [Opened] { state.withLock { $0.links } }
  var askedForFragments: [String] { state.withLock { $0.asked } }
  var logouts: [Logout] { state.withLock { $0.logouts } }
  var wasCancelled: Bool { state.withLock { $0.wasCancelled } }

  func handleCallback(url: String, from browser: BrowserUser) async -> CallbackOutcome {
    await noted {
      $0.urls.append(url)
      $0.browsers.append(browser)
    }
    return outcome
  }

  func openLogin(token: String, from browser: BrowserUser) async -> LoginOpening {
    await noted { $0.links.append(Opened(token: token, browser: browser)) }
    return opening
  }

  func awaitsFragment(url: String) async -> Bool {
    state.withLock { $0.asked.append(url) }
    return awaitsFragments
  }

  func handleLogout(provider: String, form: Data) async -> LogoutOutcome {
    let logout = Logout(provider: provider, form: String(decoding: form, as: UTF8.self))
    await noted { $0.logouts.append(logout) }
    return logoutOutcome
  }

  private func noted(_ note: @Sendable (inout State) -> Void) async {
    let reached = state.withLock { state in
      note(&state)
      let count = state.count
      let reached = state.watchers.filter { $0.count <= count }
      state.watchers.removeAll { $0.count <= count }
      return reached.map(\.continuation)
    }
    for continuation in reached { continuation.resume() }
    await withCheckedContinuation { continuation in
      let isOpen = state.withLock { state in
        if !state.isOpen { state.held.append(continuation) }
        return state.isOpen
      }
      if isOpen { continuation.resume() }
    }
    if Task.isCancelled { state.withLock { $0.wasCancelled = true } }
  }

  /// Returns once it was asked `count` times.
  func asked(_ count: Int) async {
    await withCheckedContinuation { continuation in
      let isReached = state.withLock { state in
        if state.count < count { state.watchers.append((count, continuation)) }
        return state.count >= count
      }
      if isReached { continuation.resume() }
    }
  }

  func letGo() {
    let held = state.withLock { state in
      state.isOpen = true
      defer { state.held = [] }
      return state.held
    }
    for continuation in held { continuation.resume() }
  }
}

extension LoginID {
  static let one = LoginID(rawValue: "L1")!
}

extension CallbackOutcome {
  static func done(account: String, provider: String, identity: SignedIn? = nil, program: String? = nil) -> Self {
    .completed(.one, Completion(account: account, provider: provider, identity: identity, program: program))
  }
}

/// Runs `body` with a started listener, which is stopped at the end.
func withListener(
  _ configuration: CallbackListener.Configuration = .init(), handler: any CallbackHandler = ScriptedHandler(),
  users: CallbackListener.PeerUsers = .init(), _ body: (CallbackListener, RawClient) async throws -> Void
) async throws {
  let listener = CallbackListener(
    configuration: configuration, handler: handler, group: MultiThreadedEventLoopGroup.singleton,
    users: users, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
  try await listener.start()
  do {
    try await body(listener, RawClient(port: listener.port ?? 0))
  } catch {
    await listener.stop()
    throw error
  }
  await listener.stop()
}
