import FoundationEssentials
public import Grants
public import OAuth

/// Zephr: identity providers sign users in, a session replaces the token, and new users register first.
public struct ZephrProvider: Provider {
  public let settings: ZephrSettings
  public let description: ProviderDescription
  public let authorizationTraits: AuthorizationTraits
  public let tokenTraits: TokenTraits
  public let refreshTraits = RefreshTraits.unsupported
  public let revocationTraits = RevocationTraits()
  public let logoutTraits: LogoutTraits
  public let apiTraits: APITraits

  public var name: ProviderName { settings.site.name }
  public var metadataHint: String {
    "Compare `base_url` in \(section) with the server's address."
  }

  /// Keys of the login's memory.
  enum Memory {
    /// The cookies that the server has set.
    static let cookies = "cookies"
    /// Binds a registration to the sign-in.
    static let stateKey = "state_key"
    /// The server's identifier of the user who registers.
    static let identifier = "identifier"
    static let trackingID = "tracking_id"
    /// The subject of the existing account.
    static let subject = "subject"
  }

  public init(_ settings: ZephrSettings) {
    self.settings = settings
    description = settings.site.description(kind: "zephr", client: settings.clientType ?? "")
    var authorization = settings.site.authorization
    authorization.correlation = settings.redirectsWithNonce ? .redirectURI : .singleLogin
    authorization.options.takesIdentityProvider = true
    authorization.denialHint =
      "The site refused this sign-in. Try another identity provider (`--idp`), or ask the site's operator."
    authorizationTraits = authorization
    var tokens = TokenTraits()
    tokens.credential = .session(cookie: settings.cookieName)
    tokenTraits = tokens
    let others = ZephrSettings.Reach.allCases.filter { $0 != settings.logoutReach }
    var logout = LogoutTraits()
    logout.reaches = ([settings.logoutReach] + others).map(\.rawValue)
    logoutTraits = logout
    apiTraits = settings.site.api(standard: settings.site.baseURL)
  }

  // MARK: No metadata to fetch

  public func discovery() -> HTTPRequest? { nil }

  public func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata {
    var metadata = ServerMetadata(issuer: "")
    metadata.endpoints[.userinfo] = url(["profile"])
    metadata.endpoints[.revocation] = url(["logout"])
    metadata.supported.grantTypes = []
    return metadata
  }

  // MARK: Requests

  func url(_ segments: [String], query: [Parameter] = []) -> URL {
    settings.site.url(settings.pathPrefix.split(separator: "/").map(String.init) + segments, query: query)
  }

  func request(
    _ purpose: HTTPRequest.Purpose, _ method: String, _ url: URL, cookies: Cookies
  ) -> HTTPRequest {
    var request = HTTPRequest(purpose: purpose, method: method, url: url)
    request.headers = [.init("Accept", "application/json")]
    if method != "GET" { request.headers.append(.init("Content-Type", "application/json")) }
    if let header = cookies.header { request.headers.append(.init("Cookie", header)) }
    request.tls = settings.site.tls
    return request
  }

  /// The cookies of the grant's login: they identify the device to the server.
  static func cookies(of grant: SavedGrant) -> Cookies {
    Cookies(header: grant.extra.flatMap { JSON(message: $0)?.dictionary }?.text(Memory.cookies) ?? "")
  }

  /// The session cookie with the other cookies of the login.
  func cookies(_ session: Secret, _ others: Cookies = Cookies()) -> Cookies {
    var cookies = others
    // Exposed to be sent.
    cookies.set(.init(name: settings.cookieName, value: session.exposed, life: nil))
    return cookies
  }
}

/// A session and its lifetime, if the server reports one.
struct ZephrSession: Sendable, Equatable {
  var id: Secret
  var life: Duration?
}

extension ZephrProvider {
  /// The session that a response sets; nil if it sets none.
  func session(in response: HTTPResponse, at now: Timestamp) -> ZephrSession? {
    var found = Cookies.all(in: response, at: now)
    // A registration response has the session in its body, with or without a cookie.
    let body = response.members.text("cookie").flatMap { Cookies.parse($0, at: response.date ?? now) }
    if let body { found.append(body) }
    let usable = found.first { $0.name == settings.cookieName && ($0.life.map { $0 > .zero } ?? true) }
    guard let usable, Cookies.isValue(usable.value) else { return nil }
    return ZephrSession(id: Secret(usable.value), life: usable.life ?? body?.life)
  }
}
