public import Foundation

extension DemoServer {
  /// What a server is started with.
  public struct Options: Sendable {
    /// A loopback literal; any other is refused, as this server signs in whoever asks.
    public var host = "127.0.0.1"
    /// 0 lets the kernel choose.
    public var port = 0
    public var clients: [Client] = [Client(id: "demo")]
    /// Who may bring an assertion as an authorization grant (RFC 7523 §2.1).
    public var serviceAccounts: [ServiceAccount] = []
    public var settings = Settings()
    /// The server's clock. A test that moves it needs no sleep.
    public var now: @Sendable () -> Date = { Date() }

    public init() {}
  }

  /// A registered client (RFC 6749 §2).
  public struct Client: Sendable, Hashable {
    public var id: String
    /// Nil makes it a public client, which must use PKCE and must not authenticate, unless it has keys.
    public var secret: String?
    /// Exact redirect URIs, besides `http` on 127.0.0.1 or ::1 at any port and path (RFC 8252 §7.3).
    public var redirectURIs: [String]
    /// Public JWKs (RFC 7517): they verify its assertions and its request objects.
    public var keys: [JSON]
    /// `none`, `client_secret_basic`, …; nil takes any that its secret or keys allow (RFC 7591 §2).
    public var authenticationMethod: String?

    public init(
      id: String, secret: String? = nil, redirectURIs: [String] = [], keys: [JSON] = [],
      authenticationMethod: String? = nil
    ) {
      self.id = id
      self.secret = secret
      self.redirectURIs = redirectURIs
      self.keys = keys
      self.authenticationMethod = authenticationMethod
    }

    /// Whether it cannot keep a secret (RFC 6749 §2.1).
    var isPublic: Bool { authenticationMethod.map { $0 == "none" } ?? (secret == nil && keys.isEmpty) }
  }

  /// An issuer of assertions, known by its public JWKs.
  public struct ServiceAccount: Sendable, Hashable {
    public var issuer: String
    public var keys: [JSON]

    public init(issuer: String, keys: [JSON]) {
      self.issuer = issuer
      self.keys = keys
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
}

extension Duration {
  /// For arithmetic with `Date`, which counts in seconds.
  var asSeconds: Double {
    Double(components.seconds) + Double(components.attoseconds) / 1e18
  }
}
