import BrokerAPI
import Grants

/// A connection that asked for events.
private struct Subscription {
  var session: any Session
  var types: Set<EventType>
}

/// Tells connections and hooks what happened, after it is on disk.
@BrokerActor
final class Events {
  private let authorizer: Authorizer
  private let measures: Measures
  private var subscriptions: [UInt64: Subscription] = [:]
  private var nextSubscription: UInt64 = 0
  private var actions: [@Sendable (Event) -> Void] = []

  init(_ authorizer: Authorizer, _ measures: Measures) {
    self.authorizer = authorizer
    self.measures = measures
  }

  /// How many connections are subscribed.
  var count: Int { subscriptions.count }

  func subscribe(_ params: EventsSubscribe.Params, session: any Session) throws(RPCError) -> EventsSubscribe.Result {
    var types = Set(EventType.allCases)
    if let asked = params.events {
      types = []
      for name in asked {
        guard let type = EventType(rawValue: name) else {
          throw .invalidParams(
            "params.events: no event \(name.prefix(64).debugDescription)",
            hint: "Known are: \(EventType.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        types.insert(type)
      }
    }
    guard subscriptions.count < Limit.subscriptions else {
      throw RPCError(.overloaded, "too many connections are subscribed to events")
    }
    nextSubscription += 1
    let id = nextSubscription
    subscriptions[id] = Subscription(session: session, types: types)
    session.holdOpen()
    session.onClose { [weak self] in
      Task { await self?.unsubscribe(id) }
    }
    return .init(subscribed: types.map(\.rawValue).sorted())
  }

  /// Calls back with every event, after what it tells of is on disk. The action must not wait.
  func onEvent(_ action: @escaping @Sendable (Event) -> Void) {
    actions.append(action)
  }

  private func unsubscribe(_ id: UInt64) {
    subscriptions[id] = nil
  }

  /// What a person has to decide is for those alone who may.
  private func mayLearn(of event: Event, _ caller: Caller) -> Bool {
    let policy = authorizer.policy
    guard policy.allows(.observe, method: EventsSubscribe.name, account: event.account, caller: caller) else {
      return false
    }
    switch event.type {
    case .releaseWaiting, .releaseEnded:
      return policy.allows(.manage, method: ReleaseList.name, account: event.account, caller: caller)
    case .tokenRefreshed, .tokenFailed, .loginRequired, .loginStarted, .loginActionRequired, .loginCompleted,
      .loginFailed, .accountRemoved, .refreshTokenExpiring, .providerUnreachable, .providerRecovered, .storeFailed,
      .storeRecovered, .clockStepped, .configurationReloaded:
      return true
    }
  }

  /// After the commit, to those whose policy lets them see the account.
  ///
  /// - Parameter user: who started the login that it is about. They and who may do everything learn which login that is.
  func emit(_ event: Event, startedBy user: UInt32? = nil) {
    for action in actions { action(event) }
    guard !subscriptions.isEmpty else { return }
    var others = event
    others.login_id = nil
    let (all, rest) = (JSON(encoding: event), JSON(encoding: others))
    for (id, subscription) in subscriptions where subscription.types.contains(event.type) {
      let caller = subscription.session.caller
      guard mayLearn(of: event, caller) else { continue }
      let params = caller.uid == user || authorizer.policy.isPrivileged(caller) ? all : rest
      guard !subscription.session.notify(method: Event.method, params: params) else { continue }
      subscriptions[id] = nil
      measures.eventDropped()
    }
  }
}

// MARK: Methods

extension EventsSubscribe: Served {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.runtime.events.subscribe(call.params, session: call.session)
  }
}
