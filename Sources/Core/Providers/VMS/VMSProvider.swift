import FoundationEssentials
public import Grants
public import OAuth

/// A video management system with external sign-in. It generates the URL of the sign-in page, its callback contains no
/// login identifier, and its tokens are valid until the server refuses them.
public struct VMSProvider: Provider {
  public let settings: VMSSettings
  public let description: ProviderDescription
  public let authorizationTraits: AuthorizationTraits
  public let tokenTraits = TokenTraits()
  public let refreshTraits = RefreshTraits.unsupported
  public let revocationTraits = RevocationTraits()
  public let logoutTraits: LogoutTraits
  public let apiTraits: APITraits

  public var name: ProviderName { settings.site.name }
  public var metadataHint: String {
    "Compare `base_url` in \(section) with the server's address."
  }

  /// Keys of the login's memory. `device_uuid` is also stored with the grant.
  enum Memory {
    /// The ID of this installation at the server; each account has its own.
    static let device = "device_uuid"
    static let code = "code"
    /// Replaces the code in the next step of a login, if the server returned a key.
    static let key = "key"
    /// Present if the server writes session identifiers as numbers.
    static let numbers = "session_numbers"
  }

  public init(_ settings: VMSSettings) {
    self.settings = settings
    description = settings.site.description(kind: "vms", client: settings.clientName)
    var authorization = settings.site.authorization
    authorization.correlation = .singleLogin
    authorizationTraits = authorization
    var logout = LogoutTraits()
    logout.listsSessions = true
    logoutTraits = logout
    apiTraits = settings.site.api(standard: settings.site.url(["api", "v1"]))
  }

  // MARK: No metadata to fetch

  public func discovery() -> HTTPRequest? { nil }

  public func metadata(from response: HTTPResponse?) throws(ProviderFailure) -> ServerMetadata {
    var metadata = ServerMetadata(issuer: "")
    metadata.endpoints[.userinfo] = url(["users", "self"])
    metadata.endpoints[.revocation] = url(["logout"])
    metadata.supported.grantTypes = []
    return metadata
  }

  // MARK: Requests

  func url(_ segments: [String]) -> URL { settings.site.url(["api", "v1"] + segments) }

  func request(
    _ purpose: HTTPRequest.Purpose, _ method: String, _ segments: [String], device: String?, token: Secret? = nil
  ) -> HTTPRequest {
    var request = HTTPRequest(purpose: purpose, method: method, url: url(segments))
    request.headers = headers(device: device, token: token)
    request.tls = settings.site.tls
    return request
  }

  /// The headers that the server requires on every call.
  func headers(device: String?, token: Secret?) -> [HTTPRequest.Header] {
    var headers = settings.headers.asHeaders
    let own = Set(settings.headers.keys.map { $0.lowercased() })
    var standard: [HTTPRequest.Header] = [
      .init("Accept", "application/json"), .init("Content-Type", "application/json"),
      .init("X-Client", settings.clientName), .init("X-Version", settings.clientVersion),
      .init("hl", settings.language),
    ]
    if let device { standard.append(.init("X-UUID", device)) }
    // Exposed to be sent.
    if let token { standard.append(.init("Authorization", "Bearer \(token.exposed)")) }
    headers += standard.filter { !own.contains($0.name.lowercased()) }
    return headers
  }

  /// The installation ID of a grant's sign-in.
  static func device(of grant: SavedGrant) -> String? {
    grant.extra.flatMap { JSON(message: $0)?.dictionary }?.text(Memory.device)
  }

  /// A UUID (RFC 9562 §5.4) from random data.
  static func device(from random: String) -> String {
    var bytes = [UInt8](repeating: 0, count: 16)
    for (index, byte) in (decodeBase64URL(random) ?? Data(random.utf8)).enumerated() { bytes[index % 16] ^= byte }
    bytes[6] = bytes[6] & 0x0F | 0x40
    bytes[8] = bytes[8] & 0x3F | 0x80
    var parts: [Substring] = []
    var rest = hexadecimal(bytes)[...]
    for length in [8, 4, 4, 4, 12] {
      parts.append(rest.prefix(length))
      rest = rest.dropFirst(length)
    }
    return parts.joined(separator: "-")
  }
}
