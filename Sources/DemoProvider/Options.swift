public import Foundation

extension DemoServer {
  /// What a server is started with.
  public struct Options: Sendable {
    /// A loopback literal; any other is refused, as this server signs in whoever asks.
    public var host = "127.0.0.1"
    /// 0 lets the kernel choose.
    public var port = 0
    public var clients: [Client] = [Client(id: "demo")]
    public var settings = Settings()
    /// The server's clock. A test that moves it needs no sleep.
    public var now: @Sendable () -> Date = { Date() }

    public init() {}
  }

  /// A registered client (RFC 6749 §2).
  public struct Client: Sendable, Hashable {
    public var id: String
    /// Nil makes it a public client, which must use PKCE and must not authenticate.
    public var secret: String?
    /// Exact redirect URIs, besides `http` on 127.0.0.1 or ::1 at any port and path (RFC 8252 §7.3).
    public var redirectURIs: [String]

    public init(id: String, secret: String? = nil, redirectURIs: [String] = []) {
      self.id = id
      self.secret = secret
      self.redirectURIs = redirectURIs
    }
  }

  /// What a refresh does to the refresh token.
  public enum Rotation: String, Sendable, CaseIterable {
    /// A new one each time; the old one used again revokes the whole family (RFC 9700 §4.14.2).
    case strict
    /// A new one each time; the old one is good for `Settings.grace` more and then answers with the family's current one.
    case grace
    /// The same one stays.
    case none
  }

  /// Who decides at the authorization endpoint.
  public enum Approval: String, Sendable, CaseIterable {
    /// The server, at once: `login_hint` names the user (alice without one), and `deny` refuses.
    case auto
    /// A person, on a page; a `login_hint` still answers at once unless `prompt` asks for the page.
    case ask
  }

  /// What may change while the server runs.
  public struct Settings: Sendable {
    public var accessTTL: Duration = .seconds(5)
    public var refreshTTL: Duration = .seconds(3600)
    public var rotation: Rotation = .strict
    public var grace: Duration = .seconds(5)
    public var approve: Approval = .auto
    /// Whether a refresh answers with an ID token too (OIDC Core §12.2).
    public var idTokenOnRefresh = true
    /// Whether a refresh token needs the scope `offline_access` (OIDC Core §11).
    public var refreshNeedsOfflineAccess = false
    /// Members laid over each token response, ID token, discovery document and userinfo answer; a null removes one.
    public var tokenExtra: [String: JSON] = [:]
    public var idTokenExtra: [String: JSON] = [:]
    public var discoveryExtra: [String: JSON] = [:]
    public var userinfoExtra: [String: JSON] = [:]

    public init() {}
  }
}

extension Duration {
  /// For arithmetic with `Date`, which counts in seconds.
  var asSeconds: Double {
    Double(components.seconds) + Double(components.attoseconds) / 1e18
  }
}
