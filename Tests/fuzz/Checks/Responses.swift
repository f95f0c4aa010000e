import Foundation
import Grants

@testable import OAuth
@testable import Providers

extension Target {
  /// An answer of the token endpoint, and of every other one, by the provider's whole conversation.
  static let tokens = Target(name: "tokens", longest: 4096) { bytes in
    let response = response(bytes)
    for quirks in quirks { try checkTokens(response, quirks) }
    for provider in providers {
      try check(
        conversation(
          provider.refresh(grant, token: Secret("refresh-1"), key: SavedToken.Key(), metadata: metadata), response
        ).flatMap(\.issued), response)
      let answered = provider.exchange(code: Secret("code"), login: login, metadata: metadata)
      try check(conversation(answered.map(issued), response).flatMap { $0 }, response)
    }
    try checkRevocation(response)
    if let person = try? UserInfo.parse(response, subject: nil) {
      try expect(response.status == 200 && !person.subject.isEmpty, "a user without a subject")
      let other = try? UserInfo.parse(response, subject: person.subject + "x")
      try expect(other == nil, "the information of another user is accepted")
    }
  }

  /// An answer with metadata, and its result.
  static let discovery = Target(name: "discovery", longest: 4096) { bytes in
    let response = response(bytes)
    for provider in providers {
      let metadata: ServerMetadata
      do throws(ProviderFailure) {
        metadata = try provider.metadata(from: response)
      } catch {
        try expectSayable(error.message)
        if case .ended = error { throw Broken(description: "metadata end a grant") }
        continue
      }
      try expect(response.status == 200 && metadata.issuer == issuer, "metadata of \(metadata.issuer)")
      try checkEndpoints(metadata)
      try checkAuthorization(provider, metadata)
    }
  }

  // MARK: What stands around an answer

  static let issuer = "https://login.example.com"
  static let now = Timestamp(seconds: 1_800_000_000)

  static let metadata = ServerMetadata(
    issuer: issuer,
    endpoints: [
      .authorization: URL(string: issuer + "/authorize"), .token: URL(string: issuer + "/token"),
      .keys: URL(string: issuer + "/keys"),
    ].compactMapValues(\.self))

  private static let quirks = [
    TokenResponseQuirks(),
    TokenResponseQuirks(
      acceptsForm: true, scopeSeparator: ",", keepMembers: ["instance_url", "team"], fixedLifetime: .seconds(60),
      lifetimeUnit: .milliseconds),
    TokenResponseQuirks(keepMembers: ["ok"], path: ["authed_user"]),
  ]

  private static let providers = [provider(.oidc), provider(.oauth2)]

  static func provider(_ kind: ProviderSettings.Kind) -> OAuthProvider {
    guard let name = ProviderName(rawValue: "work"), let issuer = try? Issuer(issuer, allowInsecureHTTP: false) else {
      preconditionFailure("these are a name and an issuer")
    }
    var settings = ProviderSettings(name: name, kind: kind, displayName: "Work", clientID: "client")
    settings.server.issuer = issuer
    settings.server.discovery = .openID
    settings.access.scopes = kind == .oidc ? ["openid", "mail"] : ["mail"]
    settings.token.idToken.algorithms = ["ES256"]
    settings.refresh.permanentErrors = [.text("bad_refresh_token"), .status(400)]
    return OAuthProvider(settings)
  }

  private static var account: AccountName {
    guard let account = AccountName(rawValue: "ann") else { preconditionFailure("this is a name") }
    return account
  }

  private static var grant: SavedGrant {
    SavedGrant(
      account: account, provider: providers[0].name, identity: Identity(subject: "alice"), requestedScopes: ["openid"],
      grantedScopes: ["openid"], refreshToken: Secret("refresh-1"), generation: 1, createdAt: now, loggedInAt: now)
  }

  static var login: SavedLogin {
    guard let id = LoginID(rawValue: "login-1") else { preconditionFailure("this is a name") }
    return SavedLogin(
      id: id, provider: providers[0].name, account: account, state: Secret("the state"), nonce: Secret("the nonce"),
      verifier: Secret(String(repeating: "v", count: 43)), redirectURI: "http://127.0.0.1:4711/callback",
      scopes: ["openid", "mail"], resource: nil, maxAge: nil, uid: 1000, startedAt: now, expiresAt: now + .seconds(600))
  }

  /// The status, a line for each header, an empty line, the body.
  static func response(_ bytes: [UInt8]) -> HTTPResponse {
    var rest = bytes[...]
    func line() -> String {
      let line = rest.prefix { $0 != 0x0A }
      rest = rest.dropFirst(line.count + 1)
      return decoded(line)
    }
    let status = Int(line().prefix(3)) ?? 200
    var headers: [HTTPRequest.Header] = []
    while headers.count < 32, case let text = line(), !text.isEmpty {
      let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      headers.append(.init(String(parts[0]), parts.count == 2 ? String(parts[1].drop { $0 == " " }) : ""))
    }
    return HTTPResponse(status: status, headers: headers, body: Data(rest))
  }

  /// The result; nil if it does not end.
  private static func issued(_ answer: LoginAnswer) -> Result<Issued, ProviderFailure> {
    if case .issued(let issued) = answer { return .success(issued) }
    return .failure(.invalid(message: "a code came to something else than tokens", nil))
  }

  private static func conversation<Output>(
    _ first: Step<Output>, _ response: HTTPResponse
  ) throws -> Result<Output, ProviderFailure> {
    var step = first
    for _ in 0..<10 {
      switch step {
      case .done(let issued): return .success(issued)
      case .failed(let failure): return .failure(failure)
      case .send(_, let then): step = then(response, now)
      case .attempt(_, let then): step = then(.success(response), now)
      case .keys(_, let then): step = then(.success(SigningKeys.set), now)
      }
    }
    throw Broken(description: "a conversation does not end")
  }

  // MARK: What must hold

  private static func checkTokens(_ response: HTTPResponse, _ quirks: TokenResponseQuirks) throws {
    let tokens: TokenResponse
    do throws(ResponseError) {
      tokens = try TokenResponse.parse(response, quirks: quirks)
    } catch {
      if let rotated = RotatedToken(unusable: response, quirks: quirks) {
        try expect((200..<300).contains(response.status) && !rotated.token.isEmpty, "no refresh token is taken for one")
      }
      try expectSayable(error.description)
      return try checkWait(error.retryAfter)
    }
    try expect((200..<300).contains(response.status) && !tokens.accessToken.isEmpty, "no token is taken for one")
    for oddity in tokens.oddities { try expectSayable(oddity) }
    try expect(tokens.tokenType == "Bearer" || tokens.tokenType == "DPoP", "tokens of type \(tokens.tokenType)")
    for duration in [tokens.expiresIn, tokens.refreshIn, tokens.refreshTokenExpiresIn].compactMap(\.self) {
      try expect(duration >= .zero && duration <= Lifetime.longest, "a lifetime of \(duration)")
      try expect(now + duration >= now, "time goes back")
    }
    let extra = try JSONSerialization.jsonObject(with: tokens.extra)
    let names = (extra as? [String: Any])?.keys.sorted() ?? ["?"]
    try expect(Set(names).isSubset(of: quirks.keepMembers), "\(names) are kept")
  }

  private static func check(_ result: Result<Issued, ProviderFailure>, _ response: HTTPResponse) throws {
    switch result {
    case .success(let issued):
      try expect((200..<300).contains(response.status), "HTTP \(response.status) issues a token")
      if let warning = issued.warning { try expectSayable(warning) }
      try expect(issued.identity == nil, "an unsigned ID token identifies a user")
    case .failure(let failure):
      try expectSayable(failure.message)
      try checkWait(failure.retryAfter)
      try checkEnd(failure, response)
    }
  }

  /// Only a permanent code, or another user, ends a grant.
  private static func checkEnd(_ failure: ProviderFailure, _ response: HTTPResponse) throws {
    guard case .ended(let reason, _, let oauth) = failure else { return }
    switch reason {
    case .identityChanged:
      try expect((200..<300).contains(response.status), "HTTP \(response.status) names a user")
    case .refused:
      let isRefusal = (200..<300).contains(response.status) || (400..<500).contains(response.status)
      try expect(isRefusal && ![408, 429].contains(response.status), "HTTP \(response.status) ends a grant")
      let permanent = OAuthProvider.permanentCodes.union([OAuthErrorCode(rawValue: "bad_refresh_token")])
      let isNamed =
        oauth.map { permanent.contains($0.code) || $0.code.rawValue == "http_400" } ?? (response.status == 400)
      try expect(isNamed, "\(oauth?.code.rawValue ?? "no code") ends a grant")
    case .lostRotation, .noRefreshToken, .refreshTokenExpired, .signedOut, .unreadable:
      throw Broken(description: "an answer says \(reason)")
    }
  }

  private static func checkWait(_ wait: Duration?) throws {
    guard let wait else { return }
    try expect(wait >= .zero && wait <= HTTPResponse.longestRetryAfter, "a wait of \(wait)")
  }

  private static func checkRevocation(_ response: HTTPResponse) throws {
    switch RevocationRequest(token: Secret("t"), hint: .refreshToken).outcome(of: response) {
    case .revoked: try expect((200..<300).contains(response.status), "HTTP \(response.status) has revoked")
    case .retryLater(let wait): try checkWait(wait)
    case .refused(let error): if let error { try expectSayable(error.summary) }
    case .unsupported: return
    }
  }

  private static func checkEndpoints(_ metadata: ServerMetadata) throws {
    for endpoint in Endpoint.allCases {
      switch Result(catching: { () throws(EndpointError) in try metadata.endpoint(endpoint) }) {
      case .success(let url):
        let isLoopback =
          ["localhost", "::1", "[::1]"].contains(url.host?.lowercased()) || url.host?.hasPrefix("127.") == true
        let scheme = url.scheme?.lowercased()
        try expect(scheme == "https" || (scheme == "http" && isLoopback), "an endpoint in the clear: \(url)")
        try expect(url.host?.isEmpty == false && url.user == nil && url.fragment == nil, "an endpoint at \(url)")
      case .failure(let error): try expectSayable(error.description)
      }
    }
  }

  /// The URL of a sign-in has all requested parameters, regardless of the endpoint's own query.
  private static func checkAuthorization(_ provider: OAuthProvider, _ metadata: ServerMetadata) throws {
    guard let redirectURI = RedirectURI(rawValue: "http://127.0.0.1:4711/callback") else { return }
    let request = LoginRequest(
      scopes: ["openid"], resource: nil, redirectURI: redirectURI, state: Secret("the state"), nonce: nil,
      verifier: nil, prompt: nil, loginHint: "a&b=c#d", parameters: ["x": "y z"],
      madeAt: Timestamp(seconds: 1_800_000_000), identifier: "jti-1")
    switch provider.authorization(request, metadata: metadata).end {
    // The metadata may demand that the request is pushed first.
    case nil: return
    case .success(let place):
      let parameters = URI(place.url.absoluteString)?.query.flatMap { FormEncoding.decode($0) } ?? []
      for wanted in [Parameter("state", "the state"), Parameter("login_hint", "a&b=c#d"), Parameter("x", "y z")] {
        try expect(parameters.contains(wanted), "\(wanted.name) is lost at \(place.url)")
      }
    case .failure(let failure): try expectSayable(failure.message)
    }
  }
}
