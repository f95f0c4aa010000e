import BrokerAPI
import Grants
import OAuth

/// A call to a provider's API with an account's token: `request.send` collects the answer, `/forward` streams it.
struct APICall: Sendable {
  var question: AuthorizedCalls.Question
  let params: RequestSend.Params
  let permission: Permission
  var renewed = Renewed()

  /// The parts that were renewed for the call.
  struct Renewed: Sendable {
    var nonce = false
    private(set) var token = false
    /// The user has signed in for it.
    var consent = false

    /// False: a fresh token was refused too.
    mutating func claimToken() -> Bool {
      defer { token = true }
      return !token
    }
  }

  enum Answer {
    /// The whole answer, without the secrets of its request. The connection has sent a new nonce itself.
    case collected(HTTPResponse)
    /// The head, and the body of an error.
    ///
    /// - unsigned: the request before its signature, if the server requires another nonce in that (RFC 9449 §9).
    case streamed(HTTPResponse, to: HTTPRequest, unsigned: HTTPRequest?)
  }

  enum Verdict {
    /// It is the caller's.
    case passed
    /// The same once more with the server's nonce.
    case nonce(HTTPRequest)
    /// Only a login helps.
    case stepUp(RPCError)
    /// The same once more with a fresh token.
    case tokenRefused(message: String, OAuthError?)
    case refused(RPCError)
  }

  /// The meaning of an answer of the provider's API.
  @BrokerActor
  func verdict(on answer: Answer, of provider: any Provider, by calls: AuthorizedCalls) -> Verdict {
    let (accounts, account) = (calls.accounts, question.account)
    var response: HTTPResponse
    switch answer {
    case .collected(let whole): response = whole
    case .streamed(let head, _, let unsigned):
      if let unsigned, !renewed.nonce { return .nonce(unsigned) }
      response = head
    }
    // A refresh brings neither scopes nor a newer sign-in.
    if let error = accounts.recordStepUp(response, of: account) { return .stepUp(error) }
    switch answer {
    case .collected: if StepUp(response, loggedInAt: calls.now) != nil { return .passed }
    case .streamed(_, let request, _):
      if let error = accounts.otherAudience(response, to: request, of: account, isFresh: renewed.token) {
        return .refused(error)
      }
      // The refusal's words go to the client.
      response = response.withoutEchoes(of: request)
    }
    switch provider.verdict(on: response) {
    case .passed: return .passed
    case .loginRequired(let message): return .refused(calls.lacksScopes(question, message))
    case .blocked(let message): return .refused(accounts.recordBlocked(account, message))
    case .tokenRefused(let message, let oauth): return .tokenRefused(message: message, oauth)
    }
  }
}

// MARK: A refused token

extension AuthorizedCalls {
  /// Replaces the refused token of an attempt, once for a request.
  func replace<Output: Sendable>(
    _ attempt: Attempt<Output>, _ renewed: inout APICall.Renewed, for question: Question, _ message: String,
    _ oauth: OAuthError?, isProvidersWord: Bool
  ) async throws(RPCError) {
    guard renewed.claimToken() else { throw refusedAgain(attempt.saved, message, oauth) }
    try await replace(attempt.token, for: question, message, oauth, isProvidersWord: isProvidersWord)
  }

  /// Replaces a token that a server refused, unless that has happened since.
  ///
  /// - Parameters:
  ///   - message: the server's words.
  ///   - isProvidersWord: whether the refusal says that the token is invalid, and not only that it is not for that
  ///     server.
  /// - Throws: if the provider considers the token valid.
  func replace(
    _ token: SavedToken, for question: Question, _ message: String, _ oauth: OAuthError?, isProvidersWord: Bool
  ) async throws(RPCError) {
    // A fresh token would be another server's.
    try checkUnmoved(question)
    let account = question.account
    // Another login starts the generations again, so compare the tokens and not their numbers.
    guard accounts[account]?.token?.accessToken == token.accessToken else { return }
    let left = max(0, Double((question.deadline - uptime).milliseconds) / 1000)
    let report = try await tokens.reportRejected(
      account, .init(account: account.rawValue, generation: token.generation, timeout: left), by: question.asker,
      isProvidersWord: isProvidersWord)
    if report.confirmed == true, let saved = accounts[account]?.saved { throw refusedThough(saved, message, oauth) }
  }

  /// The token cannot be renewed. It was refused here, and the provider considers it valid.
  private func refusedThough(_ saved: SavedGrant, _ message: String, _ oauth: OAuthError?) -> RPCError {
    RPCError(
      .providerError,
      "the token of account \(saved.account) was refused, but provider \(saved.provider) considers it valid: \(message)",
      hint: "The account may lack a permission for this request. Otherwise: \(accounts.loginHint(saved))",
      oauth: oauth.map { OAuthDetail($0) })
  }

  func refusedAgain(_ saved: SavedGrant, _ message: String, _ oauth: OAuthError?) -> RPCError {
    RPCError(
      .providerError, "provider \(saved.provider) refuses a fresh token of account \(saved.account) too: \(message)",
      hint: saved.kind.isUnattended
        ? "See whether [account.\(saved.account)] has the scopes that this needs."
        : "\(accounts.loginHint(saved)) Name the scopes that this needs with --scope.",
      oauth: oauth.map { OAuthDetail($0) })
  }

  /// The token lacks scopes that only a login can bring.
  func lacksScopes(_ question: Question, _ message: String) -> RPCError {
    RPCError(
      .loginRequired, "provider \(question.name): \(message)",
      hint: accounts[question.account].map { "\(accounts.loginHint($0.saved)) Ask for all scopes with --scope." })
  }
}
