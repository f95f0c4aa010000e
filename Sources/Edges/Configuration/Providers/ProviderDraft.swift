import Grants
import OAuth
import Providers

/// A provider as written, with its template merged in. ``ProviderCheck`` checks the combinations.
struct ProviderDraft {
  var kind: ProviderSettings.Kind?
  var profile: String?
  var displayName: String?
  var issuer: String?
  var issuerRule = IssuerRule.exact
  var discovery: Discovery?
  var discoveryURL: String?
  var endpoints = ProviderSettings.Endpoints()
  var clientID: String?
  var secretFile: String?
  var secretCredential: String?
  var method: Method?
  var clientKey = KeyDraft()
  var assertionAudience: String?
  var tls = TLSDraft()
  var scopes: [String] = []
  var scopeSeparator = " "
  var answeredScopeSeparator: String?
  var resource: String?
  var audience: String?
  var audienceParameter: TokenTraits.AudienceParameter?
  var redirect = ProviderSettings.Redirect.loopback(host: .v4, path: "/callback")
  var pkce = true
  var optionalScopes: [String] = []
  var prompt: String?
  var maxAge: Duration?
  var acrValues: [String] = []
  var uiLocales: [String] = []
  var claims: String?
  var authorizationDetails: String?
  var par = ProviderSettings.PushedRequests.whenRequired
  var signsRequests = false
  var requestKey = KeyDraft()
  var responseMode: String?
  var allowPassword = false
  var authorizationParameters: [String: String] = [:]
  var deviceParameters: [String: String] = [:]
  var tokenParameters: [String: String] = [:]
  var refreshParameters: [String: String] = [:]
  var revocationParameters: [String: String] = [:]
  var tokenHeaders: [String: String] = [:]
  var refreshHeaders: [String: String] = [:]
  var dpop = false
  var bodyFormat = BodyFormat.form
  var response = TokenResponseQuirks()
  var refreshPath: [String]?
  var rotation = Rotation.strict
  var permanentErrors: [String] = []
  var temporaryErrors: [String] = []
  var refreshTokenLifetime: Duration?
  var prolongsRefreshTokens = false
  var sendsScopeAtRefresh = false
  var narrowing = RefreshTraits.Narrowing.cautious
  var idToken = ProviderSettings.IDTokenSettings()
  var revocation = ProviderSettings.RevocationStyle.rfc7009
  var revokesReplaced = false
  var postLogoutRedirectURI: String?
  var backchannelLogout = false
  var signIn = SignInDraft()
  var allowInsecureHTTP = false
  var loginLifetime = Duration.seconds(600)

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
  /// The values that are used unchanged.
  func settings(name: ProviderName, kind: ProviderSettings.Kind, clientID: String) -> ProviderSettings {
    var settings = ProviderSettings(
      name: name, kind: kind, displayName: displayName ?? name.rawValue, clientID: clientID)
    settings.profile = profile
    settings.issuerRule = issuerRule
    settings.endpoints = endpoints
    settings.redirect = redirect
    settings.bodyFormat = bodyFormat
    settings.response = response
    settings.response.scopeSeparator = answeredScopeSeparator ?? scopeSeparator
    settings.refreshPath = refreshPath
    settings.rotation = rotation
    settings.permanentErrors = permanentErrors.map(ErrorPattern.init)
    settings.temporaryErrors = temporaryErrors.map(ErrorPattern.init)
    settings.refreshTokenLifetime = refreshTokenLifetime
    settings.prolongsRefreshTokens = prolongsRefreshTokens
    settings.sendsScopeAtRefresh = sendsScopeAtRefresh
    settings.narrowing = narrowing
    settings.idToken = idToken
    settings.revocation = revocation
    settings.revokesReplaced = revokesReplaced
    settings.postLogoutRedirectURI = postLogoutRedirectURI
    settings.backchannelLogout = backchannelLogout
    settings.allowInsecureHTTP = allowInsecureHTTP
    settings.loginLifetime = loginLifetime
    signIn.apply(to: &settings, allowInsecureHTTP: allowInsecureHTTP)
    takeRequests(&settings)
    return settings
  }

  /// What requests say.
  private func takeRequests(_ settings: inout ProviderSettings) {
    settings.scopes = scopes
    settings.optionalScopes = optionalScopes
    settings.scopeSeparator = scopeSeparator
    settings.resource = audienceParameter == .resource ? audience ?? resource : resource
    settings.audience = audienceParameter == .audience ? audience : nil
    settings.audienceParameter = audienceParameter
    settings.pkce = pkce
    settings.prompt = prompt
    settings.maxAge = maxAge?.wholeSeconds
    settings.acrValues = acrValues
    settings.uiLocales = uiLocales
    settings.claims = claims
    settings.authorizationDetails = authorizationDetails
    settings.par = par
    settings.responseMode = responseMode
    settings.allowPassword = allowPassword
    settings.authorizationParameters = authorizationParameters
    settings.deviceParameters = deviceParameters
    settings.tokenParameters = tokenParameters
    settings.refreshParameters = refreshParameters
    settings.revocationParameters = revocationParameters
    settings.tokenHeaders = tokenHeaders
    settings.refreshHeaders = refreshHeaders
    settings.dpop = dpop
  }
}
