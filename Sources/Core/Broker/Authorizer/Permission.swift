import BrokerAPI
import Principals
import Synchronization

/// The policy's decision for one request, made once (decision 28). It is made again only if the policy has changed:
/// ``Authorizer/renewed(_:)``.
struct Permission: Sendable {
  let principal: Principal
  let access: Access
  let method: String
  /// Nil: the request concerns no account, or many.
  let account: String?
  /// The rule that allows it; nil: none is needed.
  let rule: String?
  /// The scopes that a token may have; nil: all that was granted.
  let scopes: Set<String>?
  /// The approval that is required before a token is released; nil: none.
  let confirmation: Policy.Confirmation?
  /// The request to the provider's API; nil: none.
  let request: APIRequest?
  /// The epoch of the policy that decided.
  let epoch: UInt64
  /// The approved scopes: no more are released. Nil: no approval was needed.
  var approved: PendingReleases.Question?
}

/// The active policy, for the broker's actor and for event loops.
final class PolicyInForce: Sendable {
  private struct State {
    var policy: Policy
    /// No `use` is permitted.
    var isHeld = false
  }

  private let state: Mutex<State>
  /// Increases with each change: earlier decisions are invalid.
  private let changes = Atomic<UInt64>(0)

  init(_ policy: Policy) { state = Mutex(State(policy: policy)) }

  var policy: Policy { state.withLock { $0.policy } }
  var isHeld: Bool { state.withLock { $0.isHeld } }
  var epoch: UInt64 { changes.load(ordering: .acquiring) }

  func configure(_ policy: Policy) {
    state.withLock {
      $0.policy = policy
      changes.add(1, ordering: .releasing)
    }
  }

  /// Begins or ends a hold of all releases.
  func hold(_ isHeld: Bool) {
    state.withLock {
      $0.isHeld = isHeld
      changes.add(1, ordering: .releasing)
    }
  }

  /// Decides once; nil: refused, or held.
  func permission(
    _ principal: Principal, _ access: Access, _ method: String, _ account: String?, request: APIRequest? = nil
  ) -> Permission? {
    let (state, epoch) = state.withLock { ($0, changes.load(ordering: .relaxed)) }
    guard !(state.isHeld && (access == .use || access == .idToken)),
      case .allowed(let rule, let scopes, let confirmation) = state.policy.permission(
        access, method, account, principal, request: request)
    else { return nil }
    return Permission(
      principal: principal, access: access, method: method, account: account, rule: rule, scopes: scopes,
      confirmation: confirmation, request: request, epoch: epoch)
  }

  /// The same for a method that concerns accounts which its parameters do not name.
  func permissionForSome(_ principal: Principal, _ access: Access, _ method: String) -> Permission? {
    let (state, epoch) = state.withLock { ($0, changes.load(ordering: .relaxed)) }
    let policy = state.policy
    guard !(state.isHeld && (access == .use || access == .idToken)),
      policy.allowsSome(access, method: method, caller: principal)
    else { return nil }
    return Permission(
      principal: principal, access: access, method: method, account: nil,
      rule: policy.permission(access, method, nil, principal)?.rule, scopes: nil, confirmation: nil,
      request: nil, epoch: epoch)
  }
}
