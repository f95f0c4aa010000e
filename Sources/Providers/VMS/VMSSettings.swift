/// A video management system whose users sign in elsewhere, as configured.
public struct VMSSettings: Sendable, Equatable {
  public var site: SiteSettings
  /// `X-Client`: the program that signs in.
  public var clientName: String
  /// `X-Version`: its version, which an old server or a new one may refuse (HTTP 409).
  public var clientVersion: String
  /// `hl`: the language of what the server says to people.
  public var language = "en"
  /// More headers for each call; they win over the others.
  public var headers: [String: String] = [:]
  /// Which session to replace where the server allows no more; nil: the person is asked.
  public var replacing: Replacing?

  public enum Replacing: String, Sendable, CaseIterable {
    /// The one that was used the longest time ago, where the server says when each was.
    case oldest
    /// One that nobody is using, where there is one.
    case offline
  }

  public init(site: SiteSettings, clientName: String, clientVersion: String) {
    self.site = site
    self.clientName = clientName
    self.clientVersion = clientVersion
  }
}
