import BrokerAPI
import ProviderTemplates
import Synchronization

/// A provider that is added and checked, step by step. It continues if its page is closed.
final class ProviderRun: Sendable {
  /// At the same time, of one session.
  static let most = 4
  /// How long the view of a provider shows the same result, in seconds.
  static let life: Int64 = 10

  enum Step: Int, CaseIterable {
    case registration, checks, request
  }

  enum End {
    case notRegistered(IssuerText, RPCError)
    case notChecked(RPCError)
    case checked([ProviderCheck.Check], LoginProbe.Result?)
  }

  struct State {
    /// Nil until it is registered.
    var provider: String?
    /// The one that runs.
    var step: Step
    var end: (End, at: Int64)?
  }

  let id: String
  /// Nil: the broker has the provider already.
  let issuer: IssuerText?
  private let inner: Mutex<State>

  init(id: String, registering issuer: IssuerText) {
    self.id = id
    self.issuer = issuer
    inner = Mutex(State(provider: nil, step: .registration))
  }

  init(id: String, checking provider: String) {
    self.id = id
    issuer = nil
    inner = Mutex(State(provider: provider, step: .checks))
  }

  var state: State { inner.withLock { $0 } }
  var hasEnded: Bool { state.end != nil }

  func begins(_ step: Step, provider: String? = nil) {
    inner.withLock { state in
      state.step = step
      state.provider = provider ?? state.provider
    }
  }

  func ends(_ end: End, at now: Int64) { inner.withLock { $0.end = (end, now) } }

  /// Whether the view of the provider shows it.
  func shows(_ provider: String, at now: Int64) -> Bool {
    let state = state
    guard issuer == nil, state.provider == provider else { return false }
    return state.end.map { now - $0.at < Self.life } ?? true
  }
}
