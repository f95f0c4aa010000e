/// The tokens that a provider issues, and their contents.
public struct TokenTraits: Sendable, Equatable {
  /// Requested if the caller chooses no scopes.
  public var scopes: [String]
  /// Requested in addition to ``scopes`` if the metadata list them.
  public var optionalScopes: [String] = []
  /// RFC 8707; nil: none.
  public var resource: String?
  /// The audience requested by default; nil: none.
  public var audience: String?
  /// How requests name an audience; nil: the provider takes none, except at a token exchange.
  public var audienceParameter: AudienceParameter?
  /// OpenID Connect: ID tokens are requested and verified.
  public var usesIDTokens: Bool
  /// The provider's kind has OpenID Connect, whether its ID tokens are requested or not.
  public var hasOpenID = false
  /// Token responses identify the user even without an ID token.
  public var namesPerson = false
  public var binding = TokenBinding()
  public var credential = Credential.accessToken

  /// The credential that authorizes a call.
  public enum Credential: Sendable, Equatable {
    case accessToken
    /// A session, identified by a cookie with this name.
    case session(cookie: String)

    /// `token_type_hint` of a revocation (RFC 7009 §2.1).
    public var hint: String {
      switch self {
      case .accessToken: "access_token"
      case .session: "session"
      }
    }

    /// The cookie that a client sends; nil: the credential is not a cookie.
    public func cookie(_ value: String) -> String? {
      switch self {
      case .accessToken: nil
      case .session(let name): "\(name)=\(value)"
      }
    }
  }

  /// The request parameter for an audience.
  public enum AudienceParameter: String, Sendable, CaseIterable {
    case audience
    /// RFC 8707: the audience is a URI.
    case resource
  }

  public init(scopes: [String] = [], resource: String? = nil, usesIDTokens: Bool = false) {
    self.scopes = scopes
    self.resource = resource
    self.usesIDTokens = usesIDTokens
  }

  /// The scopes of a login. Without `openid` there is no ID token, and the user would be unknown.
  ///
  /// - Parameter supported: the scopes that the metadata list.
  public func scopes(asked: [String]?, supported: [String]?) -> [String] {
    let optional = optionalScopes.filter { supported?.contains($0) == true && !self.scopes.contains($0) }
    let scopes = asked ?? self.scopes + optional
    return usesIDTokens && !scopes.contains("openid") ? ["openid"] + scopes : scopes
  }

  /// Whether a login's user differs from the user of the account's grant. If responses identify the user, a response
  /// that does not is treated as another user's.
  public func isAnotherPerson(_ new: Identity?, than old: Identity?) -> Bool {
    guard let old else { return false }
    guard let new else { return usesIDTokens || namesPerson }
    return new.subject != old.subject
  }
}

/// How tokens are bound.
public struct TokenBinding: Sendable, Equatable {
  /// To a key of the account (RFC 9449).
  public var usesDPoP: Bool
  /// To the client's certificate (RFC 8705 §3).
  public var usesCertificate: Bool

  public init(usesDPoP: Bool = false, usesCertificate: Bool = false) {
    self.usesDPoP = usesDPoP
    self.usesCertificate = usesCertificate
  }

  /// How the grant's tokens are bound; nil: they are bearer tokens.
  public func method(of grant: SavedGrant) -> String? {
    if grant.dpopKey != nil { return "dpop" }
    return usesCertificate ? "mtls" : nil
  }
}
