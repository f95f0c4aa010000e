import BrokerAPI
import Grants
import Principals

/// A connection that asked for events.
private struct Subscription {
  var session: any Session
  var types: Set<EventType>
}

/// Tells connections and hooks what happened, after it is on disk.
@BrokerActor
final class Events {
  private let authorizer: Authorizer
  private let measures: Metrics
  /// One of a connection.
  private var subscriptions: [ObjectIdentifier: Subscription] = [:]
  private var shares = Shares(all: Limit.subscriptions, perHolder: Limit.subscriptionsPerHolder)
  private let onEvent: @Sendable (Event) -> Void

  /// - Parameter onEvent: called with every event, after its change is on disk. It must not block.
  init(_ authorizer: Authorizer, _ measures: Metrics, onEvent: @escaping @Sendable (Event) -> Void = { _ in }) {
    self.authorizer = authorizer
    self.measures = measures
    self.onEvent = onEvent
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
    // A repeated subscription replaces the earlier one: each event is sent once.
    if subscriptions.updateValue(Subscription(session: session, types: types), forKey: ObjectIdentifier(session)) == nil
    {
      try acquirePlace(session)
    }
    return .init(subscribed: types.map(\.rawValue).sorted())
  }

  private func acquirePlace(_ session: any Session) throws(RPCError) {
    if let shortage = shares.acquire(for: session.principal.holder) {
      subscriptions[ObjectIdentifier(session)] = nil
      let whose = shortage != .ofAll ? " of \(session.principal.holder)" : ""
      throw RPCError(.overloaded, "too many connections\(whose) are subscribed to events")
    }
    session.holdOpen()
    // It is held until then, so that no other connection can have its identifier.
    session.onClose { [weak self, session] in
      Task { await self?.unsubscribe(session) }
    }
  }

  private func unsubscribe(_ session: any Session) {
    guard subscriptions.removeValue(forKey: ObjectIdentifier(session)) != nil else { return }
    shares.giveBack(of: session.principal.holder)
  }

  /// Pending approvals are only for callers that may answer them.
  private func mayLearn(of event: Event, _ caller: Principal) -> Bool {
    let policy = authorizer.policy
    guard policy.allows(.observe, method: EventsSubscribe.name, account: event.account, caller: caller) else {
      return false
    }
    switch event.type {
    case .releaseWaiting, .releaseEnded:
      return policy.allows(.manage, method: ReleaseList.name, account: event.account, caller: caller)
    case .tokenRefreshed, .tokenFailed, .scopesLost, .scopesRequired, .loginRequired, .loginStarted,
      .loginActionRequired,
      .loginCompleted,
      .loginFailed, .accountRemoved, .refreshTokenExpiring, .providerUnreachable, .providerRecovered, .storeFailed,
      .storeRecovered, .clockStepped, .fileWritten, .configurationReloaded:
      return true
    }
  }

  /// After the commit, to those whose policy lets them see the account.
  ///
  /// - Parameter user: who started the login that it is about. They and who may do everything learn which login that is.
  func emit(_ event: Event, startedBy user: UInt32? = nil) {
    onEvent(event)
    guard !subscriptions.isEmpty else { return }
    var others = event
    others.login_id = nil
    let (all, rest) = (JSON(encoding: event), JSON(encoding: others))
    for subscription in subscriptions.values where subscription.types.contains(event.type) {
      let caller = subscription.session.principal
      guard mayLearn(of: event, caller) else { continue }
      let isStarter = caller.uid.map { $0 == user } ?? false
      let params = isStarter || authorizer.policy.isPrivileged(caller) ? all : rest
      guard !subscription.session.notify(method: Event.method, params: params) else { continue }
      unsubscribe(subscription.session)
      measures.eventDropped()
    }
  }
}

extension EventsSubscribe: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try broker.runtime.events.subscribe(call.params, session: call.session)
  }
}
