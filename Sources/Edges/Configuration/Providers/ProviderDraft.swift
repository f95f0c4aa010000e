import Grants
import OAuth
import Providers

/// A provider as written, with its template merged in: the settings, and what is read, checked or converted before it
/// becomes one. ``ProviderSectionCheck`` checks the combinations.
@dynamicMemberLookup
struct ProviderDraft {
  /// Most keys are settings as they are written.
  private var settings: ProviderSettings
  var issuer: String?
  var discovery: Discovery?
  var discoveryURL: String?
  var clientID: String?
  var secretFile: String?
  var secretCredential: String?
  var method: Method?
  var clientKey = KeyDraft()
  var assertionAudience: String?
  var tls = TLSDraft()
  var answeredScopeSeparator: String?
  var maxAge: Duration?
  var signsRequests = false
  var requestKey = KeyDraft()
  var permanentErrors: [String] = []
  var temporaryErrors: [String] = []
  var signIn = SignInDraft()

  init(_ name: ProviderName) {
    settings = ProviderSettings(name: name, kind: .oidc, displayName: name.rawValue, clientID: "")
  }

  subscript<Value>(dynamicMember path: any WritableKeyPath<ProviderSettings, Value> & Sendable) -> Value {
    get { settings[keyPath: path] }
    set { settings[keyPath: path] = newValue }
  }

  enum Discovery: Sendable, Equatable {
    case off
    case on(DiscoveryStyle)
  }

  /// The names of `token_endpoint_auth_methods_supported` (RFC 8414 §2), and one of this project.
  enum Method: String, Sendable, CaseIterable {
    case none
    case basic = "client_secret_basic"
    case basicRaw = "client_secret_basic_raw"
    case post = "client_secret_post"
    case secretJWT = "client_secret_jwt"
    case privateKeyJWT = "private_key_jwt"
    case tls = "tls_client_auth"
    case selfSignedTLS = "self_signed_tls_client_auth"
  }
}

/// A private key as a section names it.
struct KeyDraft {
  var file: String?
  var credential: String?
  var id: String?
  var algorithm: SignatureAlgorithm?
}

/// The files of a TLS connection as a section names them.
struct TLSDraft {
  var authoritiesFile: String?
  var certificateFile: String?
  var keyFile: String?
  var keyCredential: String?
}

extension ProviderDraft {
  /// The settings; secrets and keys of other files are read later.
  func made() -> ProviderSettings {
    var settings = settings
    settings.client.id = clientID ?? ""
    settings.token.response.scopeSeparator = answeredScopeSeparator ?? settings.access.scopeSeparator
    if settings.access.audienceParameter == .resource {
      settings.access.resource = settings.access.audience ?? settings.access.resource
    }
    if settings.access.audienceParameter != .audience { settings.access.audience = nil }
    settings.authorization.maxAge = maxAge?.wholeSeconds
    settings.refresh.permanentErrors = permanentErrors.map(ErrorPattern.init)
    settings.refresh.temporaryErrors = temporaryErrors.map(ErrorPattern.init)
    signIn.apply(to: &settings, allowInsecureHTTP: settings.server.allowInsecureHTTP)
    return settings
  }
}
