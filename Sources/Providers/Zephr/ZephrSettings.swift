/// Zephr, as configured. Several of its ways differ between installations, and so are settings.
public struct ZephrSettings: Sendable, Equatable {
  public var site: SiteSettings
  /// What all paths begin with: `/blaize` or `/zephr`.
  public var pathPrefix = "/blaize"
  /// `client_type` of a start; nil: none is sent.
  public var clientType: String? = "ios"
  /// Those that a login may name; empty: any.
  public var identityProviders: [String] = []
  /// The one that signs people in where the login names none.
  public var standardIdentityProvider: String?
  /// The cookie that a session goes by.
  public var cookieName = "blaize_session"
  /// How a registration is refused: because the person is known already, or because of the e-mail address's domain.
  public var userExistsStatus = 409
  public var emailDomainStatus = 403
  /// Where a profile says who the person is, as dotted paths, the best first.
  public var subjectMembers = ["user_id", "id", "sub", "identifiers.email_address", "email_address", "email"]
  /// How far a logout goes by default.
  public var logoutReach = Reach.justHere
  /// Each login has a redirect URI of its own, which the start tells the server.
  public var redirectsWithNonce = false
  /// The parameter that tells the redirect URI at a start; nil: the server knows it.
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
