import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals

/// A challenge of a server that only a login can answer: scopes that were not granted (RFC 6750 §3.1), or a newer or
/// stronger authentication (RFC 9470 §3).
struct StepUp: Sendable, Hashable, Codable {
  var scopes: [String]
  var acrValues: [String]
  var maxAge: Int64?
  /// The login of the grant that was not enough.
  var login: Timestamp

  /// Nil: the response is not such a challenge.
  init?(_ response: HTTPResponse, loggedInAt login: Timestamp) {
    guard [401, 403].contains(response.status), let challenge = (try? ResourceChallenge(response)) ?? nil else {
      return nil
    }
    switch challenge.error {
    case "insufficient_scope" where challenge.scopes?.isEmpty == false: scopes = challenge.scopes ?? []
    case "insufficient_user_authentication": scopes = []
    default: return nil
    }
    acrValues = scopes.isEmpty ? challenge.acrValues : []
    maxAge = scopes.isEmpty ? challenge.maxAge : nil
    self.login = login
  }

  /// The scopes of both challenges, in a stable order and limited: a hostile server may name other ones each time.
  static func joined(_ old: [String], _ new: [String]) -> [String] {
    Array((old + new.filter { !old.contains($0) }).prefix(Limit.scopes))
  }

  /// The parameters of the authorization request (RFC 9470 §4).
  var parameters: [String: String] {
    var parameters: [String: String] = [:]
    if !acrValues.isEmpty { parameters["acr_values"] = acrValues.joined(separator: " ") }
    if let maxAge { parameters["max_age"] = String(maxAge) }
    return parameters
  }
}

extension Accounts {
  /// The challenge that no login has answered.
  func stepUp(of grant: Grant) -> StepUp? {
    guard let stepUp = table.stepUps[grant.saved.account] ?? savedStepUp(grant.saved.account),
      stepUp.login == grant.saved.loggedInAt
    else { return nil }
    return stepUp.scopes.isEmpty || !missing(stepUp.scopes, grant).isEmpty ? stepUp : nil
  }

  private static func stepUpKey(_ account: AccountName) -> String { "step_up.\(account)" }

  /// As it was before a restart.
  private func savedStepUp(_ account: AccountName) -> StepUp? {
    journal.values[Self.stepUpKey(account)].flatMap {
      try? JSON.parse(Array($0.utf8)).decode(StepUp.self, root: "step_up")
    }
  }

  /// A hostile server may name another condition in each answer: only the first one, and further scopes, are written.
  private func save(_ stepUp: StepUp, of account: AccountName, after old: StepUp?) {
    guard old == nil || old?.scopes != stepUp.scopes else { return }
    let text = JSON(encoding: stepUp).text()
    Task { await journal.put(Self.stepUpKey(account), text, "the scopes that account \(account) needs") }
  }

  /// Waits until the user has signed in again.
  ///
  /// - Returns: whether that was in time.
  func awaitsSignIn(
    of account: AccountName, for holder: Holder, until end: Duration, session: (any Session)? = nil
  ) async throws(RPCError) -> Bool {
    let login = self[account]?.saved.loggedInAt
    while uptime < end, !isDraining {
      try await waiters.callerWaits(for: .account(account), of: holder, until: end, session: session)
      guard let grant = self[account] else { return false }
      if grant.saved.loggedInAt != login, grant.token != nil { return true }
    }
    return false
  }

  func missing(_ scopes: [String], _ grant: Grant) -> [String] {
    let provider = providers[grant.saved.provider]?.provider
    return scopes.filter { scope in
      !(provider?.isGranted(scope, in: grant.saved.grantedScopes) ?? grant.saved.grantedScopes.contains(scope))
    }
  }

  /// Remembers the challenge, with an event if it is new.
  ///
  /// - Returns: the error for the caller; nil: the response is not such a challenge, or the scopes are granted.
  func recordStepUp(_ response: HTTPResponse, of account: AccountName) -> RPCError? {
    guard let grant = self[account], !grant.saved.kind.isUnattended,
      var stepUp = StepUp(response, loggedInAt: grant.saved.loggedInAt)
    else { return nil }
    let missing = missing(stepUp.scopes, grant)
    guard stepUp.scopes.isEmpty || !missing.isEmpty else { return nil }
    let old = self.stepUp(of: grant)
    if !stepUp.scopes.isEmpty { stepUp.scopes = StepUp.joined(old?.scopes ?? [], stepUp.scopes) }
    if table.stepUps[account] == nil, table.stepUps.count >= Limit.stepUps { table.stepUps = [:] }
    table.stepUps[account] = stepUp
    save(stepUp, of: account, after: old)
    let what =
      stepUp.scopes.isEmpty
      ? "a new sign-in" : "the scope \(missing.joined(separator: " ").printable(limit: 512))"
    let message = "requests of account \(account) need \(what)"
    let hint = "Sign in again with `grantctl login \(grant.saved.provider) \(account)`."
    if old != stepUp {
      logger.notice("\(message)", metadata: ["account": "\(account)", "hint": "\(hint)"])
      emit(
        Event(
          type: .scopesRequired, at: now.seconds, account: account.rawValue, provider: grant.saved.provider.rawValue,
          generation: grant.saved.generation, message: message, hint: hint))
    }
    return RPCError(stepUp.scopes.isEmpty ? .loginRequired : .scopeNotGranted, message, hint: hint)
  }
}

extension Accounts {
  /// The provider has blocked the user, as its API said; nil: as far as is known it has not.
  func blocked(_ grant: Grant) -> FailureRecord? {
    guard let known = table.blocked[grant.saved.account], known.login == grant.saved.loggedInAt else { return nil }
    return known.failure
  }

  /// Remembers that, until a request succeeds, or a login.
  ///
  /// - Returns: the error for the caller.
  func recordBlocked(_ account: AccountName, _ message: String) -> RPCError {
    let saved = self[account]?.saved
    if let saved {
      if table.blocked[account] == nil, table.blocked.count >= Limit.stepUps { table.blocked = [:] }
      table.blocked[account] = (FailureRecord(message: message, at: now), saved.loggedInAt)
    }
    let provider = saved.map { "provider \($0.provider): " } ?? ""
    return RPCError(.providerError, "\(provider)\(message)", hint: Self.blockedHint)
  }

  /// The API took a request of the account.
  func recordAccepted(_ account: AccountName) { if !table.blocked.isEmpty { table.blocked[account] = nil } }

  static let blockedHint = "Ask the provider why; signing in again does not help."
}

extension Accounts {
  /// The error for a token of another audience: the server names its metadata (RFC 9728 §5.1), and the account's tokens
  /// are for another resource, or for none. Nil: a refresh may help.
  ///
  /// - Parameter isFresh: the refused token has just been issued.
  func otherAudience(
    _ response: HTTPResponse, to sent: HTTPRequest, of account: AccountName, isFresh: Bool
  ) -> RPCError? {
    guard response.status == 401, let challenge = (try? ResourceChallenge(response)) ?? nil, challenge.metadata != nil,
      let saved = self[account]?.saved, let url = ResourceURL(sent.url.absoluteString),
      saved.resource.map({ !url.belongs(to: $0) }) ?? true
    else { return nil }
    if isFresh {
      if table.otherAudiences.count >= Limit.stepUps { table.otherAudiences = [:] }
      table.otherAudiences[account] = now
    }
    guard let since = table.otherAudiences[account], now >= since, now - since < Limit.otherAudience,
      since >= saved.loggedInAt
    else { return nil }
    let resource = saved.resource.map { "the resource \($0.printable(limit: 256))" } ?? "no particular resource"
    return RPCError(
      .providerError, "\(url.host) refuses the token of account \(account), which is for \(resource)",
      hint:
        "Sign in for its own resource: `grantctl login \(url.origin)\(url.path)`. Or set `resource` of the provider."
    )
  }
}
