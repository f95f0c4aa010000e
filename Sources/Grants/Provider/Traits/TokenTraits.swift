/// What tokens a provider issues, and what they tell.
public struct TokenTraits: Sendable, Equatable {
  /// Asked for where nobody chooses others.
  public var scopes: [String]
  /// RFC 8707; nil: none in particular.
  public var resource: String?
  /// OpenID Connect: ID tokens are asked for, and verified.
  public var usesIDTokens: Bool
  /// Token responses name the person also without an ID token.
  public var namesPerson = false
  public var binding = TokenBinding()
  public var credential = Credential.accessToken

  /// What authorizes a call.
  public enum Credential: Sendable, Equatable {
    case accessToken
    /// A session, which goes by a cookie of this name.
    case session(cookie: String)

    /// `token_type_hint` of a revocation (RFC 7009 §2.1).
    public var hint: String {
      switch self {
      case .accessToken: "access_token"
      case .session: "session"
      }
    }

    /// As a client sends it; nil: not by a cookie.
    public func cookie(_ value: String) -> String? {
      switch self {
      case .accessToken: nil
      case .session(let name): "\(name)=\(value)"
      }
    }
  }

  public init(scopes: [String] = [], resource: String? = nil, usesIDTokens: Bool = false) {
    self.scopes = scopes
    self.resource = resource
    self.usesIDTokens = usesIDTokens
  }

  /// The scopes of a login. Without `openid` there is no ID token, and nobody could say who signed in.
  public func scopes(asked: [String]?) -> [String] {
    let scopes = asked ?? scopes
    return usesIDTokens && !scopes.contains("openid") ? ["openid"] + scopes : scopes
  }

  /// Whether a login is not by the person of the grant that the account has. Where responses name the person, one that
  /// does not is another's.
  public func isAnotherPerson(_ new: Identity?, than old: Identity?) -> Bool {
    guard let old else { return false }
    guard let new else { return usesIDTokens || namesPerson }
    return new.subject != old.subject
  }
}

/// What tokens are bound to.
public struct TokenBinding: Sendable, Equatable {
  /// To a key of the account (RFC 9449).
  public var usesDPoP: Bool
  /// To the client's certificate (RFC 8705 §3).
  public var usesCertificate: Bool

  public init(usesDPoP: Bool = false, usesCertificate: Bool = false) {
    self.usesDPoP = usesDPoP
    self.usesCertificate = usesCertificate
  }

  /// How the grant's tokens are bound; nil: whoever has them may use them.
  public func method(of grant: SavedGrant) -> String? {
    if grant.dpopKey != nil { return "dpop" }
    return usesCertificate ? "mtls" : nil
  }
}
