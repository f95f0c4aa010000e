import Providers

/// A provider without OAuth as written, with its template merged in: the common keys of both kinds, and those of each.
/// ``SystemCheck`` checks the combinations.
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
