import Providers

/// A provider that speaks no OAuth as it is written, its template already merged in: what both kinds have, and what
/// each has of its own. What hangs together is checked in ``SystemCheck``.
struct SystemDraft {
  var kind: ProviderKind?
  var profile: String?
  var displayName: String?
  var baseURL: String?
  var redirect: ProviderSettings.Redirect?
  var loginLifetime = Duration.seconds(600)
  var api = APIAddresses()
  var tls = TLSDraft()
  var allowInsecureHTTP = false

  // VMS
  var clientName = "grantd"
  var clientVersion: String?
  var language = "en"
  var headers: [String: String] = [:]
  var replacing: VMSSettings.Replacing?

  // Zephr
  var pathPrefix = "/blaize"
  var clientType = "ios"
  var identityProviders: [String] = []
  var standardIdentityProvider: String?
  var cookieName = "blaize_session"
  var userExistsStatus = 409
  var emailDomainStatus = 403
  var subjectMembers: [String]?
  var logoutReach = ZephrSettings.Reach.justHere
  var redirectsWithNonce = false
  var redirectParameter: String?
}

/// How a provider speaks: `kind` of its section. It decides which other keys there are.
enum ProviderKind: String, Sendable, CaseIterable {
  case oidc, oauth2, vms, zephr

  /// The kinds that speak OAuth share their keys.
  static let ofOAuth: [ProviderKind] = [.oidc, .oauth2]

  /// The names of its keys.
  var keys: [String] {
    switch self {
    case .oidc, .oauth2: Sections.provider.keys.map(\.name)
    case .vms: Sections.vms.keys.map(\.name)
    case .zephr: Sections.zephr.keys.map(\.name)
    }
  }

  /// What is said of a key that this kind does not have, where another kind has it.
  func lacks(_ key: String) -> String? {
    let others = Self.allCases.filter { $0.keys.contains(key) }.map { "\"\($0.rawValue)\"" }
    guard !others.isEmpty else { return nil }
    return "is for kind \(others.joined(separator: " or ")), and this is kind \"\(rawValue)\""
  }
}
