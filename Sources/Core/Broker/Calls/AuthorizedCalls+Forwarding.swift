import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

extension AuthorizedCalls {
  /// The request with the account's token.
  func authorized(
    _ account: AccountName, _ forward: ForwardRequest, _ params: RequestSend.Params, _ permission: Permission
  ) async throws(RPCError) -> AuthorizedRequest {
    let deadline = uptime + Timeouts.standard
    // Without its session: the answer is kept for longer than the request (``ConnectionForwardCache``).
    let question = try question(account, needs: .nothing, for: TokenRequester(permission.principal), until: deadline)
    return try await authorized(
      APICall(question: question, params: params, permission: permission), forward.method, params.url,
      forward.headers, adding: [.init("Accept-Encoding", "identity")])
  }

  /// The call with the account's current token, under the current decision.
  ///
  /// - Parameter own: the headers of every request of this kind; nil: `headers` contains them.
  private func authorized(
    _ call: APICall, _ method: String, _ destination: String, _ headers: [HTTPRequest.Header],
    adding own: [HTTPRequest.Header]?
  ) async throws(RPCError) -> AuthorizedRequest {
    let (token, saved, target) = try await self.token(for: call.question)
    try approvals.checkAgain(RequestSend.self, call.question.account, call.params, call.permission)
    // A reload may have taken the origin away.
    let url = try address(destination, target.provider)
    func authorized(_ headers: [HTTPRequest.Header]) -> HTTPRequest {
      target.provider.authorized(
        HTTPRequest(purpose: .resource, method: method, url: url, headers: headers), by: token, of: saved)
    }
    var added: [HTTPRequest.Header] = []
    if let own { added = authorized(own).headers }
    return try signed(authorized(headers + (own ?? [])), adding: added, token, target, call)
  }

  private func signed(
    _ request: HTTPRequest, adding added: [HTTPRequest.Header], _ token: SavedToken, _ target: ProviderEndpoints,
    _ call: APICall
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
        .providerMisconfigured, "the token of account \(call.question.account) is nothing that a header can hold")
    }
    return AuthorizedRequest(
      basis: AuthorizedBasis(server, adding: added, secrets: signed.secrets, target, token),
      method: signed.method, target: signed.url.requestTarget, headers: signed.headers,
      signing: request.signatures.isEmpty ? nil : (request, signed), call: call)
  }

  /// Examines an answer. A refused token is refreshed, once.
  ///
  /// - Parameter response: its status, its headers, and the body of an error.
  func verdict(on response: HTTPResponse, to sent: AuthorizedRequest) async throws(RPCError) -> ForwardVerdict {
    var call = sent.call
    let (account, target) = (call.question.account, sent.basis.target)
    var unsigned: HTTPRequest?
    if let signing = sent.signing, target.connection.recordNonce(response, to: signing.signed) {
      unsigned = signing.unsigned
    }
    let answer = APICall.Answer.streamed(response, to: sent.request, unsigned: unsigned)
    switch call.verdict(on: answer, of: target.provider, by: self) {
    case .passed: return .passed
    case .refused(let error): return .refused(error)
    case .nonce(let unsigned):
      call.renewed.nonce = true
      return .again(try signed(unsigned, adding: sent.basis.added, sent.basis.token, target, call))
    case .stepUp(let error):
      guard stepUp.asks, !call.renewed.consent,
        try await accounts.awaitsSignIn(of: account, for: call.question.asker.holder, until: uptime + stepUp.within)
      else { return .stepUp(error) }
      call.renewed.consent = true
      _ = call.renewed.claimToken()
      return .again(try await again(sent, call))
    case .tokenRefused(let message, let oauth):
      guard call.renewed.claimToken() else {
        guard let saved = accounts[account]?.saved else { throw unknownAccount(account.rawValue) }
        return .refused(refusedAgain(saved, message, oauth))
      }
      return .again(try await again(sent, call))
    }
  }

  /// The same request with a fresh token.
  private func again(_ sent: AuthorizedRequest, _ call: APICall) async throws(RPCError) -> AuthorizedRequest {
    var call = call
    call.question.deadline = uptime + Timeouts.standard
    try await replace(sent.basis.token, for: call.question, "HTTP 401", nil, isProvidersWord: false)
    return try await authorized(
      call, sent.method, sent.request.url.absoluteString,
      sent.headers.filter { !CallerHeaders.credentials.contains(CallerHeaders.folded($0.name)) }, adding: nil)
  }
}
