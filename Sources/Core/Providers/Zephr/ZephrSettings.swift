/// Zephr, as configured. Details that differ between installations are settings.
public struct ZephrSettings: Sendable, Equatable {
  public var site: SiteSettings
  /// The prefix of all paths: `/blaize` or `/zephr`.
  public var pathPrefix = "/blaize"
  /// `client_type` of the start request; nil: not sent.
  public var clientType: String? = "ios"
  /// The identity providers that a login may name; empty: any.
  public var identityProviders: [String] = []
  /// The identity provider of a login that names none.
  public var standardIdentityProvider: String?
  /// The name of the session cookie.
  public var cookieName = "blaize_session"
  /// The status of a refused registration: the user exists already, or the domain of the e-mail address is blocked.
  public var userExistsStatus = 409
  public var emailDomainStatus = 403
  /// Dotted paths to the user's identifier in a profile, in order of preference.
  public var subjectMembers = ["user_id", "id", "sub", "identifiers.email_address", "email_address", "email"]
  /// The default scope of a logout.
  public var logoutReach = Reach.justHere
  /// Each login has a separate redirect URI, which the start request sends to the server.
  public var redirectsWithNonce = false
  /// The parameter of the start request that contains the redirect URI; nil: the server knows it.
  public var redirectParameter: String?

  /// `where` of a logout.
  public enum Reach: String, Sendable, CaseIterable {
    case justHere = "JUST_HERE"
    case thisDevice = "THIS_DEVICE"
    case otherDevices = "OTHER_DEVICES"
    case everywhere = "EVERYWHERE"
  }

  public init(site: SiteSettings) {
    self.site = site
  }
}
