import NIOHTTP1
import Synchronization

extension DemoServer {
  /// What has happened since the start, or since the last reset where that says so.
  public struct Stats: Sendable {
    /// Requests for each endpoint, by its fault place's name; a reset clears them.
    public var requests: [String: Int]
    /// How often each kind of fault acted; a reset clears it.
    public var faultHits: [String: Int]
    /// Faults still set.
    public var faultsSet: Int
    /// What happened, and how often; a reset clears it.
    public var events: [Event: Int]
    /// Every revocation that was answered with 200; a reset clears them.
    public var revocations: [Revocation]
    public var liveGrants: Int
    public var deadGrants: Int
    public var refreshes: Int
    /// Refreshes that have arrived and are not answered.
    public var refreshesInFlight: Int
    /// The most refreshes that one grant ever had in flight at once.
    public var refreshesInFlightMax: Int
    /// What was pushed of people to fill in (Uber), decoded, the newest last; a reset clears it.
    public var prefills: [JSON]
    /// In the order in which they were made.
    public var grants: [Grant]

    public func count(_ event: Event) -> Int { events[event, default: 0] }

    /// One grant's life so far.
    public struct Grant: Sendable {
      public var id: Int
      /// `token.code`, `token.device`, `token.client_credentials`, …
      public var origin: Fault.Place
      /// The user's name, or who else the grant stands for.
      public var user: String
      public var clientID: String
      public var scopes: [String]
      public var resources: [String]
      /// As in its ID tokens and logout tokens.
      public var sessionID: String
      /// Whether its refresh tokens are bound to a DPoP key.
      public var isBound: Bool
      /// Why it ended; nil while it lives.
      public var ended: String?
      /// Refreshes that succeeded here, whether or not their answer arrived.
      public var refreshes: Int
      public var refreshesInFlightMax: Int
    }

    /// What came to the revocation endpoint, and what it did.
    public struct Revocation: Sendable, Hashable {
      /// What the token was: `refresh_token`, `access_token` or `unknown`.
      public var kind: String
      /// The `token_type_hint`, where there was one.
      public var hint: String?
      public var revoked: Bool

      public init(kind: String, hint: String?, revoked: Bool) {
        self.kind = kind
        self.hint = hint
        self.revoked = revoked
      }
    }

    /// What tests count; each name is its name in the control API.
    public enum Event: String, Sendable, CaseIterable {
      /// A device code came, whatever the answer.
      case poll
      /// …and too early.
      case slowDown = "slow_down"
      /// A DPoP proof was taken, or refused, or refused for want of the right nonce.
      case proof
      case proofRefused = "proof_refused"
      case nonceRefused = "nonce_refused"
      /// A client assertion, or one that is itself the grant, was taken or refused.
      case assertion
      case assertionRefused = "assertion_refused"
      /// A `jti` came twice.
      case replay
      /// A request was pushed; one was used.
      case push
      case pushUsed = "push_used"
      /// A signed authorization request was taken or refused.
      case requestObject = "request_object"
      case requestObjectRefused = "request_object_refused"
      case signedResponse = "signed_response"
      case introspection
      case revocation
      case exchange
      case registration
      case registrationRead = "registration_read"
      case registrationUpdated = "registration_updated"
      case registrationDeleted = "registration_deleted"
      /// A code or a rotated refresh token came again.
      case reuse
      case endSession = "end_session"
      case logoutToken = "logout_token"
    }
  }

  /// A request as it came.
  public struct SeenRequest: Sendable {
    public var place: Fault.Place
    public var method: String
    public var path: String
    /// Names in lower case; values of one name joined by commas.
    public var headers: [String: String]
    /// Of the query and then of a form body; the last of a name that repeats.
    public var parameters: [String: String]
    /// The names in their order, repeated ones too.
    public var names: [String]
    public var body: String
    /// When it had come.
    public var at = ContinuousClock.now
  }
}

extension Ledger {
  mutating func note(_ request: Request, at place: DemoServer.Fault.Place) {
    let pairs = request.query.pairs + request.form.pairs
    log.append(
      .init(
        place: place, method: request.method.rawValue, path: request.path,
        headers: Dictionary(request.headers.map { ($0.name.lowercased(), $0.value) }) { "\($0), \($1)" },
        parameters: Dictionary(pairs.map { ($0.name, $0.value) }) { $1 }, names: pairs.map(\.name),
        body: request.body))
    if log.count > Limits.requestLog { log.removeFirst(log.count - Limits.requestLog) }
  }
}

extension Provider {
  func stats() -> DemoServer.Stats {
    ledger.withLock { ledger in
      let grants = ledger.grants.values.sorted { $0.id < $1.id }.map {
        DemoServer.Stats.Grant(
          id: $0.id, origin: $0.origin, user: $0.approved.name, clientID: $0.approved.clientID,
          scopes: $0.approved.scopes, resources: $0.approved.resources, sessionID: $0.sessionID, isBound: $0.jkt != nil,
          ended: $0.ended, refreshes: $0.refreshes, refreshesInFlightMax: $0.refreshesInFlightMax)
      }
      let live = grants.count { $0.ended == nil }
      return DemoServer.Stats(
        requests: ledger.counts, faultHits: ledger.faultHits, faultsSet: ledger.faults.count, events: ledger.events,
        revocations: ledger.revocations, liveGrants: live, deadGrants: grants.count - live,
        refreshes: grants.reduce(0) { $0 + $1.refreshes },
        refreshesInFlight: ledger.grants.values.reduce(0) { $0 + $1.refreshesInFlight },
        refreshesInFlightMax: grants.map(\.refreshesInFlightMax).max() ?? 0, prefills: ledger.prefills,
        grants: grants)
    }
  }
}
