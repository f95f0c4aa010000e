public import BrokerAPI
public import FoundationEssentials
import Grants
public import OAuth

/// A request that goes through the broker to a provider's API, as its client sent it.
public struct ForwardRequest: Sendable {
  public var account: String
  public var method: String
  /// The path below the account's API base with the query, or with ``host`` the whole path at that host.
  public var target: String
  /// Another one of the account's API origins: its host, with the port where it has one.
  public var host: String?
  /// What is passed on of the client's headers.
  public var headers: [HTTPRequest.Header]
  /// What is known of the body, about which a person may have to be asked.
  public var body = Body.unread

  public enum Body: Sendable, Equatable {
    case unread
    /// Of ``bodyDigest(of:)``; nil: there is no body.
    case digest(String?)
  }

  public init(
    account: String, method: String, target: String, host: String?, headers: [HTTPRequest.Header]
  ) {
    self.account = account
    self.method = method
    self.target = target
    self.host = host
    self.headers = headers
  }
}

/// A request with an account's token in it, to be sent once.
public struct AuthorizedRequest: Sendable {
  /// As it is sent. It has no body.
  public let request: HTTPRequest
  public let pool: ConnectionPool
  /// Not to be repeated to the client, the longest first.
  public let secrets: [String]
  /// The origins that the token may go to.
  public let origins: Set<String>
  /// What the client's paths are relative to.
  public let base: URL?

  let unsigned: HTTPRequest
  let question: AuthorizedCalls.Question
  let target: ProviderEndpoints
  let token: SavedToken
  let permission: Permission
  let params: RequestSend.Params
  /// What was renewed for it already.
  var renewed = Renewed()

  struct Renewed: Sendable {
    var nonce = false
    var token = false
  }
}

/// What is to be done about an answer of a provider's API.
public enum ForwardVerdict: Sendable {
  /// It is the client's.
  case passed
  /// The token was refused, or the proof's nonce: the same once more.
  case again(AuthorizedRequest)
  case refused(RPCError)
}

extension AuthorizedCalls {
  /// The request with the account's token.
  func authorized(
    _ forward: ForwardRequest, _ params: RequestSend.Params, _ permission: Permission,
    isWanted: @escaping @Sendable () -> Bool
  ) async throws(RPCError) -> AuthorizedRequest {
    let account = try accountName(forward.account)
    let deadline = uptime + Timeouts.standard
    var question = try question(account, needs: .nothing, for: Asker(permission.caller), until: deadline)
    question.isWanted = isWanted
    let (token, saved, target, _) = try await self.token(for: question) { () throws(RPCError) in }
    try approvals.checkAgain(RequestSend.self, params, permission)
    let url = try address(params.url, target.provider)
    let plain = HTTPRequest(
      purpose: .resource, method: forward.method, url: url,
      headers: forward.headers + [.init("Accept-Encoding", "identity")])
    return try signed(
      target.provider.authorized(plain, by: token, of: saved), token, target, question, permission, params)
  }

  private func signed(
    _ request: HTTPRequest, _ token: SavedToken, _ target: ProviderEndpoints, _ question: Question,
    _ permission: Permission, _ params: RequestSend.Params
  ) throws(RPCError) -> AuthorizedRequest {
    let signed: HTTPRequest
    do throws(SigningKeyError) {
      signed = try target.connection.signed(request)
    } catch {
      throw RPCError(.providerMisconfigured, error.description)
    }
    let traits = target.provider.apiTraits
    return AuthorizedRequest(
      request: signed, pool: target.connection.pool(.forwarded), secrets: signed.secrets, origins: traits.origins,
      base: traits.base, unsigned: request, question: question, target: target, token: token, permission: permission,
      params: params)
  }

  /// Looks at an answer. A token that was refused is refreshed, once.
  ///
  /// - Parameters:
  ///   - response: its status, its headers, and of the body what an error has.
  func verdict(
    on response: HTTPResponse, to sent: AuthorizedRequest
  ) async throws(RPCError) -> ForwardVerdict {
    let needsNonce = sent.target.connection.noteNonce(response, to: sent.request)
    if needsNonce, !sent.renewed.nonce {
      var next = try signed(sent.unsigned, sent.token, sent.target, sent.question, sent.permission, sent.params)
      next.renewed = sent.renewed
      next.renewed.nonce = true
      return .again(next)
    }
    switch sent.target.provider.verdict(on: response) {
    case .passed: return .passed
    case .loginRequired(let message):
      return .refused(
        RPCError(
          .loginRequired, "provider \(sent.question.name): \(message)",
          hint: accounts[sent.question.account].map {
            "\(accounts.loginHint($0.saved)) Ask for all scopes with --scope."
          }))
    case .blocked(let message):
      return .refused(
        RPCError(
          .providerError, "provider \(sent.question.name): \(message)",
          hint: "Ask the provider why; signing in again does not help."))
    case .tokenRefused(let message, _):
      guard !sent.renewed.token else {
        return .refused(
          RPCError(
            .providerError,
            "provider \(sent.question.name) refuses a fresh token of account \(sent.question.account) too: \(message)",
            hint: accounts[sent.question.account].map {
              "\(accounts.loginHint($0.saved)) Name the scopes that this needs with --scope."
            }))
      }
      return .again(try await refreshed(sent))
    }
  }

  private func refreshed(_ sent: AuthorizedRequest) async throws(RPCError) -> AuthorizedRequest {
    var question = sent.question
    question.deadline = uptime + Timeouts.standard
    // A fresh token would be another server's.
    try checkUnmoved(question)
    let account = question.account
    if accounts[account]?.token?.accessToken == sent.token.accessToken {
      _ = try await tokens.reportRejected(
        .init(account: account.rawValue, generation: sent.token.generation, timeout: 30), by: question.asker,
        isProvidersWord: false)
    }
    let (token, saved, target, _) = try await self.token(for: question) { () throws(RPCError) in }
    try approvals.checkAgain(RequestSend.self, sent.params, sent.permission)
    let plain = HTTPRequest(
      purpose: .resource, method: sent.request.method, url: sent.request.url,
      headers: sent.unsigned.headers.filter { !["authorization", "dpop", "cookie"].contains($0.name.lowercased()) })
    var next = try signed(
      target.provider.authorized(plain, by: token, of: saved), token, target, question, sent.permission, sent.params)
    next.renewed = sent.renewed
    next.renewed.token = true
    return next
  }

  /// Where a request goes. It stays there, whatever a reload changes meanwhile.
  func url(of forward: ForwardRequest) throws(RPCError) -> String {
    let provider = try provider(of: accountName(forward.account))
    guard let host = forward.host else { return try address(forward.target, provider).absoluteString }
    let traits = provider.apiTraits
    let wanted = host.lowercased()
    let origin = traits.origins.sorted(by: >).first { origin in
      let place = origin.drop { $0 != "/" }.drop { $0 == "/" }
      let standard = origin.hasPrefix("http:") ? ":80" : ":443"
      return place == wanted || place == wanted + standard
    }
    // Sorted so that https comes first.
    guard let origin else {
      throw RPCError(
        .unsupportedByProvider, "the account's token must not go to \(host.printable(limit: 128))",
        hint: "Allowed are: \(traits.origins.sorted().joined(separator: ", ")). An admin can add to api_origins.")
    }
    return origin + forward.target
  }
}
