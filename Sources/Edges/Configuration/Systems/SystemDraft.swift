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
