public import BrokerAPI
public import FoundationEssentials
import Grants
public import OAuth
import Synchronization

/// A request that goes through the broker to a provider's API, as its client sent it.
public struct ForwardRequest: Sendable {
  public var account: String
  public var method: String
  /// The path below the account's API base with the query, or with ``host`` the whole path at that host.
  public var target: String
  /// Another one of the account's API origins: its host, with the port where it has one.
  public var host: String?
  /// The client's headers that are passed on.
  public var headers: [HTTPRequest.Header]
  /// The content of the body as far as it was read: a rule may depend on it.
  public var body = Body.unread

  public enum Body: Sendable, Equatable {
    case unread
    /// The digest of ``bodyDigest(of:)``; nil: there is no body.
    case read(digest: String?, MCPContent)
  }

  /// Its messages; nil: they were not read.
  var content: MCPContent? { if case .read(_, let content) = body { content } else { nil } }

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
  public let basis: AuthorizedBasis
  public let method: String
  /// Path and query, as sent.
  public let target: String
  /// As they are sent, without those of the connection and the body.
  public let headers: [HTTPRequest.Header]

  /// Before and after it was signed; nil: it has no signature.
  let signing: (unsigned: HTTPRequest, signed: HTTPRequest)?
  let permission: Permission
  let params: RequestSend.Params
  /// The token that was renewed for it.
  var renewed = Renewed()

  struct Renewed: Sendable {
    var nonce = false
    var token = false
    /// The user has signed in for it.
    var consent = false
  }

  /// As it is sent. It has no body.
  public var request: HTTPRequest {
    signing?.signed ?? basis.request(method, target, headers)
  }

  /// Whether the broker has to see every answer, and not only errors.
  public var isSigned: Bool { signing != nil }
}

extension AuthorizedRequest: Redacted {
  /// Its headers hold the token.
  public var description: String { "\(method) \(basis.server.authority)" }
}

extension ForwardRequest: Redacted {
  /// Its headers may contain data only for its client.
  public var description: String { "\(method) for account \(account)" }
}

/// What requests with one token to one server have in common.
public final class AuthorizedBasis: Sendable {
  public let server: UpstreamServer
  /// Not to be repeated to the client, the longest first.
  public let secrets: [String]
  /// The origins that the token may go to.
  public let origins: Set<String>
  /// The base of the client's paths.
  public let base: URL?

  /// Headers added to the client's.
  let added: [HTTPRequest.Header]
  let question: AuthorizedCalls.Question
  let target: ProviderEndpoints
  let token: SavedToken
  /// `https://api.example.com:8443`.
  private let place: String
  /// The token in the form for event loops; it is withdrawn with any change of the token or its provider's settings.
  private let served = Mutex<TokenCache.Slot?>(nil)

  init(
    _ server: UpstreamServer, adding added: [HTTPRequest.Header], secrets: [String],
    _ question: AuthorizedCalls.Question,
    _ target: ProviderEndpoints, _ token: SavedToken
  ) {
    self.server = server
    self.added = added
    self.secrets = secrets
    self.question = question
    self.target = target
    self.token = token
    let traits = target.provider.apiTraits
    origins = traits.origins
    base = traits.base
    place = "\(server.isSecure ? "https" : "http")://\(server.authority)"
  }

  func note(_ slot: TokenCache.Slot?) {
    guard let slot, slot.entry.generation == token.generation else { return }
    served.withLock { $0 = slot }
  }

  var slot: TokenCache.Slot? { served.withLock { $0 } }

  func request(_ method: String, _ target: String, _ headers: [HTTPRequest.Header]) -> HTTPRequest {
    var request = HTTPRequest(
      purpose: .resource, method: method,
      url: URL(string: place + target, encodingInvalidCharacters: false) ?? base ?? URL(filePath: "/"), headers: headers
    )
    request.tls = server.tls
    return request
  }
}

/// The action after an answer of a provider's API.
public enum ForwardVerdict: Sendable {
  /// It is the client's.
  case passed
  /// It is the client's, or this error for a client that shows the broker's errors to its user: only a login helps.
  case stepUp(RPCError)
  /// The token was refused, or the proof's nonce: the same once more.
  case again(AuthorizedRequest)
  case refused(RPCError)
}

extension AuthorizedCalls {
  /// The request with the account's token.
  func authorized(
    _ forward: ForwardRequest, _ params: RequestSend.Params, _ permission: Permission
  ) async throws(RPCError) -> AuthorizedRequest {
    let account = try accountName(forward.account)
    let deadline = uptime + Timeouts.standard
    // Without its session: the answer is kept for longer than the request (``ForwardLane``).
    let question = try question(account, needs: .nothing, for: Asker(permission.principal), until: deadline)
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
      return .refused(
        RPCError(
          .loginRequired, "provider \(question.name): \(message)",
          hint: accounts[question.account].map {
            "\(accounts.loginHint($0.saved)) Ask for all scopes with --scope."
          }))
    case .blocked(let message): return .refused(accounts.noteBlocked(question.account, message))
    case .tokenRefused(let message, _):
      guard !sent.renewed.token else {
        return .refused(
          RPCError(
            .providerError,
            "provider \(question.name) refuses a fresh token of account \(question.account) too: \(message)",
            hint: accounts[question.account].map {
              "\(accounts.loginHint($0.saved)) Name the scopes that this needs with --scope."
            }))
      }
      return .again(try await refreshed(sent))
    }
  }

  private func refreshed(_ sent: AuthorizedRequest) async throws(RPCError) -> AuthorizedRequest {
    var question = sent.basis.question
    question.deadline = uptime + Timeouts.standard
    // A fresh token would be another server's.
    try checkUnmoved(question)
    let account = question.account
    if accounts[account]?.token?.accessToken == sent.basis.token.accessToken {
      let report = try await tokens.reportRejected(
        .init(account: account.rawValue, generation: sent.basis.token.generation, timeout: 30), by: question.asker,
        isProvidersWord: false)
      if report.confirmed == true, let grant = accounts[account] { throw refusedThough(grant.saved, "HTTP 401", nil) }
    }
    let (token, saved, target, _) = try await self.token(for: question) { () throws(RPCError) in }
    try approvals.checkAgain(RequestSend.self, sent.params, sent.permission)
    // A reload may have taken the origin away.
    let plain = HTTPRequest(
      purpose: .resource, method: sent.method, url: try address(sent.request.url.absoluteString, target.provider),
      headers: sent.headers.filter { !["authorization", "dpop", "cookie"].contains($0.name.lowercased()) })
    var next = try signed(
      target.provider.authorized(plain, by: token, of: saved), adding: [], token, target, question, sent.permission,
      sent.params)
    next.renewed = sent.renewed
    next.renewed.token = true
    return next
  }

  /// The destination of a request. It stays the same across reloads.
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
