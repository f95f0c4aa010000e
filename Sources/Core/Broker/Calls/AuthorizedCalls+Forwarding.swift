import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

extension AuthorizedCalls {
  /// The request with the account's token.
  func authorized(
    _ forward: ForwardRequest, _ params: RequestSend.Params, _ permission: Permission
  ) async throws(RPCError) -> AuthorizedRequest {
    let account = try accountName(forward.account)
    let deadline = uptime + Timeouts.standard
    // Without its session: the answer is kept for longer than the request (``ConnectionForwardCache``).
    let question = try question(account, needs: .nothing, for: TokenRequester(permission.principal), until: deadline)
    let (token, saved, target, _) = try await self.token(for: question) { () throws(RPCError) in }
    try approvals.checkAgain(RequestSend.self, params, permission)
    let url = try address(params.url, target.provider)
    let own = [HTTPRequest.Header("Accept-Encoding", "identity")]
    func authorized(_ headers: [HTTPRequest.Header]) -> HTTPRequest {
      target.provider.authorized(
        HTTPRequest(purpose: .resource, method: forward.method, url: url, headers: headers + own), by: token, of: saved)
    }
    return try signed(
      authorized(forward.headers), adding: authorized([]).headers, token, target, question, permission, params)
  }

  private func signed(
    _ request: HTTPRequest, adding added: [HTTPRequest.Header], _ token: SavedToken, _ target: ProviderEndpoints,
    _ question: Question,
    _ permission: Permission, _ params: RequestSend.Params
  ) throws(RPCError) -> AuthorizedRequest {
    let signed: HTTPRequest
    do throws(SigningKeyError) {
      signed = try target.connection.signed(request)
    } catch {
      throw RPCError(.providerMisconfigured, error.description)
    }
    guard
      let server = UpstreamServer(signed.url, over: target.connection.pool(.forwarded), tls: signed.tls),
      signed.headers.allSatisfy(\.isSendable)
    else {
      throw RPCError(
        .providerMisconfigured, "the token of account \(question.account) is nothing that a header can hold")
    }
    let basis = AuthorizedBasis(server, adding: added, secrets: signed.secrets, question, target, token)
    return AuthorizedRequest(
      basis: basis, method: signed.method, target: signed.url.requestTarget, headers: signed.headers,
      signing: request.signatures.isEmpty ? nil : (request, signed), permission: permission, params: params)
  }

  /// Examines an answer. A refused token is refreshed, once.
  ///
  /// - Parameters:
  ///   - response: its status, its headers, and the body of an error.
  func verdict(
    on response: HTTPResponse, to sent: AuthorizedRequest
  ) async throws(RPCError) -> ForwardVerdict {
    let (question, target) = (sent.basis.question, sent.basis.target)
    if let (unsigned, request) = sent.signing, target.connection.noteNonce(response, to: request), !sent.renewed.nonce {
      var next = try signed(
        unsigned, adding: sent.basis.added, sent.basis.token, target, question, sent.permission, sent.params)
      next.renewed = sent.renewed
      next.renewed.nonce = true
      return .again(next)
    }
    // A refresh brings neither scopes nor a newer sign-in.
    if let error = accounts.noteStepUp(response, of: question.account) {
      guard stepUp.asks, !sent.renewed.consent,
        try await accounts.awaitsSignIn(of: question.account, for: question.asker.holder, until: uptime + stepUp.within)
      else { return .stepUp(error) }
      var next = try await refreshed(sent)
      next.renewed.consent = true
      return .again(next)
    }
    if let error = accounts.otherAudience(
      response, to: sent.request, of: question.account, isFresh: sent.renewed.token)
    {
      return .refused(error)
    }
    // The refusal's words go to the client.
    switch target.provider.verdict(on: response.withoutEchoes(of: sent.request)) {
    case .passed: return .passed
    case .loginRequired(let message):
      return .refused(lacksScopes(question, message))
    case .blocked(let message): return .refused(accounts.noteBlocked(question.account, message))
    case .tokenRefused(let message, let oauth):
      guard !sent.renewed.token else {
        guard let saved = accounts[question.account]?.saved else { throw unknownAccount(question.account.rawValue) }
        return .refused(refusedAgain(saved, message, oauth))
      }
      return .again(try await refreshed(sent))
    }
  }

  private func refreshed(_ sent: AuthorizedRequest) async throws(RPCError) -> AuthorizedRequest {
    var question = sent.basis.question
    question.deadline = uptime + Timeouts.standard
    try await replace(sent.basis.token, for: question, "HTTP 401", nil, isProvidersWord: false)
    let (token, saved, target, _) = try await self.token(for: question) { () throws(RPCError) in }
    try approvals.checkAgain(RequestSend.self, sent.params, sent.permission)
    // A reload may have taken the origin away.
    let plain = HTTPRequest(
      purpose: .resource, method: sent.method, url: try address(sent.request.url.absoluteString, target.provider),
      headers: sent.headers.filter { !CallerHeaders.credentials.contains($0.name.lowercased()) })
    var next = try signed(
      target.provider.authorized(plain, by: token, of: saved), adding: [], token, target, question, sent.permission,
      sent.params)
    next.renewed = sent.renewed
    next.renewed.token = true
    return next
  }

}
