import BrokerAPI
import FoundationEssentials
import Grants
import OAuth
import Principals

// Requests to a provider with an account's token.
extension AuthorizedCalls {
  /// The question of a `token.exchange`.
  func exchangeQuestion(_ call: Call<TokenExchange>) throws(RPCError) -> Question {
    let deadline = uptime + (try Timeouts.duration(call.params.timeout))
    var question = try question(
      call.account, needs: .endpoint(.token), for: TokenRequester(call.caller), until: deadline)
    question.isWanted = { call.session.isReading }
    question.session = call.session
    return question
  }

  /// `token.exchange` (RFC 8693). The answer is only for the caller: none of it is kept.
  ///
  /// - Parameter actor: the account that acts; nil: none.
  func exchange(
    _ call: Call<TokenExchange>, _ question: Question, actor: Actor?
  ) async throws(RPCError) -> TokenExchange.Result {
    var question = question
    // The time of the approval is not the provider's.
    if call.params.timeout == nil { question.deadline = actor?.deadline ?? uptime + Timeouts.standard }
    let (asker, deadline) = (question.asker, question.deadline)
    let place = try await permit(for: question)
    let (target, step): (ProviderEndpoints, Step<TokenResponse>)
    do throws(RPCError) {
      // The place may have been waited for: the actor's token of now.
      var acting: Secret?
      if let actor {
        acting = try await engine.ownToken(of: actor.call.account, for: asker, until: deadline).0.accessToken
      }
      let (token, saved, current) = try await token(for: question)
      let request = try exchangeRequest(call.params, subject: token.accessToken, actor: acting)
      try checkAgain(call)
      if let actor { try checkAgain(actor.call) }
      (target, step) = (current, current.provider.exchange(request, of: saved, metadata: current.metadata))
    } catch {
      place.release()
      throw error
    }
    let sentAt = uptime
    let issued: TokenResponse
    do throws(RPCError) {
      issued = try await talk(step, target, in: place, until: deadline)
    } catch {
      throw exchangeRefused(error, of: call.account)
    }
    // A reload may have taken the permission to use the actor away while the provider was asked.
    if let actor { try checkAgain(actor.call) }
    let end = (issued.expiresIn ?? issued.configuredLifetime).map { wall(sentAt + $0) }
    return .init(
      // Exposed because the method returns it.
      access_token: issued.accessToken.exposed, issued_token_type: issued.issuedTokenType ?? "",
      token_type: issued.tokenType, expires_at: end?.seconds,
      expires_in: end.map { max(0, ($0 - now).wholeSeconds) }, scope: issued.scope)
  }

  /// The account that acts in an exchange. It has a token.
  struct Actor {
    let call: Call<TokenExchange>
    let provider: ProviderName
    /// The end of the whole exchange, which begins after the approvals. A time since boot.
    let deadline: Duration
  }

  private func checkAgain(_ call: Call<TokenExchange>) throws(RPCError) {
    try approvals.checkAgain(TokenExchange.self, call.account, call.params, call.permission)
  }

  private func exchangeRequest(
    _ params: TokenExchange.Params, subject: Secret, actor: Secret?
  ) throws(RPCError) -> TokenExchangeRequest {
    do throws(TokenExchangeRequestError) {
      return try TokenExchangeRequest(
        subjectToken: subject, subjectTokenType: .accessToken, actorToken: actor,
        actorTokenType: actor == nil ? nil : .accessToken,
        requestedTokenType: params.requested_token_type.map(TokenExchangeRequest.TokenType.init),
        audiences: params.audience ?? [], resources: params.resource ?? [], scopes: params.scopes ?? [])
    } catch {
      throw .invalidParams(error.description)
    }
  }

  /// The caller chose the target: the provider's objection does not concern the settings.
  private func exchangeRefused(_ error: RPCError, of account: AccountName) -> RPCError {
    switch error.oauth.map({ OAuthErrorCode(rawValue: $0.error) }) {
    case .invalidTarget, .invalidScope:
      RPCError(
        .scopeNotGranted, error.message,
        hint: "Ask for another audience or resource, or for fewer scopes. `grantctl show \(account)` lists the granted "
          + "ones.",
        oauth: error.oauth)
    case .unsupportedGrantType: RPCError(.unsupportedByProvider, error.message, oauth: error.oauth)
    default: error
    }
  }

  /// `token.introspect` (RFC 7662).
  func introspect(
    _ account: AccountName, _ params: TokenIntrospect.Params, _ permission: Permission
  ) async throws(RPCError) -> TokenIntrospect.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    let question = try question(
      account, needs: .endpoint(.introspection), for: TokenRequester(permission.principal), until: deadline)
    let answer = try await ask(question) { token, _, target throws(RPCError) in
      try approvals.checkAgain(TokenIntrospect.self, account, params, permission)
      return target.provider.introspection(
        of: token.accessToken, hint: "access_token", metadata: target.metadata)
    }
    return .init(active: answer.active, claims: try claims(JSON.object(answer.members).text(sorted: true)))
  }

  /// `account.userinfo` (OpenID Connect Core §5.3).
  func userInfo(
    _ account: AccountName, _ params: AccountUserinfo.Params, _ permission: Permission
  ) async throws(RPCError) -> AccountUserinfo.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    let question = try question(
      account, needs: .endpoint(.userinfo), for: TokenRequester(permission.principal), until: deadline)
    let info = try await ask(question) { token, saved, target throws(RPCError) in
      try approvals.checkAgain(AccountUserinfo.self, account, params, permission)
      return target.provider.userInfo(of: saved, token: token, metadata: target.metadata)
    }
    return .init(claims: try claims(String(decoding: info.claims, as: UTF8.self)))
  }

  private func claims(_ text: String) throws(RPCError) -> [String: JSON] {
    guard let value = try? JSON.parse(Array(text.utf8)), case .object(let members) = value else {
      throw RPCError(.providerError, "the provider's answer is not a JSON object that can be passed on")
    }
    return Dictionary(members.map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
  }

  /// `dpop.proof` (RFC 9449 §4.2): signed here, so that the key stays here.
  func proof(
    _ account: AccountName, _ params: DPoPProof.Params, _ permission: Permission
  ) async throws(RPCError) -> DPoPProof.Result {
    guard let grant = accounts[account] else { throw unknownAccount(params.account) }
    guard let key = grant.saved.dpopKey.flatMap(DPoPKey.init(raw:)) else {
      throw RPCError(
        .unsupportedByProvider, "the tokens of account \(account) are bound to no key",
        hint: "Set dpop = true in \(providers.section(of: grant.saved.provider)), then `grantctl reload`. "
          + accounts.loginHint(grant.saved))
    }
    let isMethod =
      !params.method.isEmpty && params.method.utf8.count <= 32
      && params.method.utf8.allSatisfy { (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D }
    guard isMethod else { throw .invalidParams("params.method: expected an HTTP method, such as GET") }
    // A fragment is not part of a request, nor of its proof (RFC 9449 §4.2).
    let target = String(params.url.prefix { $0 != "#" })
    guard params.url.utf8.count <= 8192, let url = Endpoint.url(target, allowInsecureHTTP: true) else {
      throw .invalidParams("params.url: expected an https address")
    }
    guard (params.nonce?.utf8.count ?? 0) <= 1024 else { throw .invalidParams("params.nonce: longer than 1024 bytes") }
    var token = params.access_token.map { Secret($0.exposed) }
    if let token {
      // A rule may have got a cap since it was decided by.
      try authorizer.checkCap(ofNamed: token, grant, try authorizer.renewed(permission))
    } else {
      token = try await engine.token(
        of: account, SavedToken.Key(), minimumTTL: nil, for: TokenRequester(permission.principal),
        until: uptime + (try Timeouts.duration(params.timeout))
      ).0.accessToken
    }
    do throws(SigningKeyError) {
      let proof = try key.proof(
        method: params.method, url: url, accessToken: token, nonce: params.nonce,
        identifier: system.token(bytes: 16), at: now)
      // Exposed because the method returns it: it is valid for one request.
      return .init(proof: proof.exposed, thumbprint: key.thumbprint)
    } catch {
      throw .internalError(error.description)
    }
  }
}

extension TokenExchange: ReleaseHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    let calls = broker.tokens.calls
    // An impossible request needs no approval of the actor.
    let question = try calls.exchangeQuestion(call)
    return try await calls.exchange(call, question, actor: try await actor(call, question, broker))
  }

  /// An actor's token is released as well: that is a second use of the method, which passes the door on its own. The caller's
  /// rate is that of the whole exchange.
  @BrokerActor
  private static func actor(
    _ call: Call<Self>, _ question: AuthorizedCalls.Question, _ broker: Broker
  ) async throws(RPCError) -> AuthorizedCalls.Actor? {
    guard let actor = call.params.actor else { return nil }
    let uptime = broker.runtime.clock.system.uptime
    let isLimited = call.params.timeout != nil
    let left = isLimited ? max(0, Double((question.deadline - uptime()).milliseconds) / 1000) : nil
    let params = Params(account: actor, timeout: left)
    let use = Use<Self, AuthorizedCalls.Actor>(
      isPaced: false, detail: "as the actor for \(call.account)",
      provider: { $0.provider.rawValue },
      params: { () throws(RPCError) in params },
      work: { acting throws(RPCError) in
        let acting = try await approved(acting, by: broker)
        let deadline = isLimited ? question.deadline : uptime() + Timeouts.standard
        let saved = try await broker.tokens.calls.engine.ownToken(
          of: acting.account, for: question.asker, until: deadline
        ).1
        return AuthorizedCalls.Actor(call: acting, provider: saved.provider, deadline: deadline)
      },
      recorded: { _ in Result(access_token: "", issued_token_type: "", token_type: "") })
    return try await broker.door.pass(use, by: call.session).get()
  }
}

extension TokenIntrospect: ReleaseHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.calls.introspect(call.account, call.params, call.permission)
  }
}

extension DPoPProof: ReleaseHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.calls.proof(call.account, call.params, call.permission)
  }
}

extension AccountUserinfo: ReleaseHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.calls.userInfo(call.account, call.params, call.permission)
  }
}
