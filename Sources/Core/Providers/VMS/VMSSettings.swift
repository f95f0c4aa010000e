/// A configured video management system with external sign-in.
public struct VMSSettings: Sendable, Equatable {
  public var site: SiteSettings
  /// `X-Client`: the program that signs in.
  public var clientName: String
  /// `X-Version`: the version of the program; a server may refuse an unsupported one (HTTP 409).
  public var clientVersion: String
  /// `hl`: the language of the server's messages.
  public var language = "en"
  /// Additional headers for each call; they take precedence over the standard ones.
  public var headers: [String: String] = [:]
  /// The session to replace if too many are open; nil: ask the user.
  public var replacing: Replacing?

  public enum Replacing: String, Sendable, CaseIterable {
    /// The least recently used one, if the server reports the times.
    case oldest
    /// One that is not in use, if any.
    case offline
  }

  public init(site: SiteSettings, clientName: String, clientVersion: String) {
    self.site = site
    self.clientName = clientName
    self.clientVersion = clientVersion
  }
}
