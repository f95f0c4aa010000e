extension DemoServer {
  /// What may change while the server runs. Each has a name in the control API too (`SettingsJSON`).
  public struct Settings: Sendable {
    public var accessTTL: Duration = .seconds(5)
    public var refreshTTL: Duration = .seconds(3600)
    public var rotation: Rotation = .strict
    public var grace: Duration = .seconds(5)
    public var approve: Approval = .auto
    /// The user who signs in if the request names none.
    public var defaultUser = "alice"
    /// Whether a refresh answers with an ID token too (OIDC Core §12.2).
    public var idTokenOnRefresh = true
    /// Whether that one repeats the nonce.
    public var nonceOnRefresh = false
    /// Whether a refresh token needs the scope `offline_access` (OIDC Core §11).
    public var refreshNeedsOfflineAccess = false
    /// Members laid over each token response, ID token, discovery document and so on; a null removes one.
    public var tokenExtra: [String: JSON] = [:]
    public var idTokenExtra: [String: JSON] = [:]
    public var discoveryExtra: [String: JSON] = [:]
    public var userinfoExtra: [String: JSON] = [:]
    public var introspectionExtra: [String: JSON] = [:]
    public var metadata = Metadata()
    public var authorization = Authorization()
    public var token = Token()
    public var refresh = Refresh()
    public var device = Device()
    public var dpop = DPoP()
    public var resource = Resource()
    public var logout = Logout()
    public var registration = Registration()
    public var vms = VMS()
    public var zephr = Zephr()
    public var dropbox = Dropbox()
    public var uber = Uber()
    public var sevenPass = SevenPass()

    public init() {}
  }
}

extension DemoServer.Settings {
  /// Discovery.
  public struct Metadata: Sendable {
    /// What is at one of the two well-known addresses.
    public enum Document: String, Sendable, CaseIterable {
      case full
      /// The endpoints beyond authorization, token and JWKS are left out.
      case bare
      /// 404.
      case missing
      /// 200, and a page.
      case html
      /// As 7Pass has it.
      case sevenPass = "7pass"
    }

    /// At `/.well-known/openid-configuration`.
    public var oidc = Document.full
    /// At `/.well-known/oauth-authorization-server`.
    public var oauth = Document.full
    /// Whether `authorization_response_iss_parameter_supported` is there (RFC 9207 §3).
    public var issAdvertised = true
  }

  /// The authorization endpoint, and PAR.
  public struct Authorization: Sendable {
    /// The error for the client if the user refuses.
    public enum Refusal: String, Sendable, CaseIterable {
      case accessDenied = "access_denied"
      case consentRequired = "consent_required"
      /// Nothing: a page, and no callback.
      case page
    }

    public var refusal = Refusal.accessDenied
    /// Whether every error is a page with status 200, so that no callback comes.
    public var errorPage = false
    /// Whether error responses bear `iss`.
    public var issOnErrors = true
    public var nonceRequired = false
    /// Whether `response_type=token` gives an access token in the fragment (RFC 6749 §4.2).
    public var implicitGrant = false
    /// The longest `state` that is taken; 0 is any.
    public var maxState = 0
    /// Whether requests must be pushed, as the metadata report (RFC 9126 §5).
    public var requirePAR = false
    public var parTTL: Duration = .seconds(60)
    /// 201, as RFC 9126 §2.2 demands.
    public var parStatus = 201
    /// Members laid over the answer to a push.
    public var parExtra: [String: JSON] = [:]
    /// Whether requests must be signed (RFC 9101 §10.5).
    public var requireRequestObject = false
  }

  /// The token endpoint, for every grant type.
  public struct Token: Sendable {
    /// What an assertion's `aud` must name.
    public enum Audience: String, Sendable, CaseIterable {
      case either
      case tokenEndpoint = "token_endpoint"
      case issuer
    }

    /// The member `scope` of the answer.
    public enum ScopeAnswer: String, Sendable, CaseIterable {
      case asGranted = "as_granted"
      case absent
      case reordered
      /// The last scope asked for is not granted.
      case narrowed
    }

    /// The same member's type.
    public enum ScopeShape: String, Sendable, CaseIterable {
      case string, array
    }

    /// The type of `expires_in`.
    public enum NumberShape: String, Sendable, CaseIterable {
      case number, string
    }

    public var assertionAudience = Audience.either
    /// Whether Basic credentials are taken as they stand, not form-decoded (against RFC 6749 §2.3.1).
    public var rawBasic = false
    /// Whether a JSON object is taken in a form's place.
    public var jsonBodies = false
    public var passwordGrant = false
    /// Whether a wrong code_verifier uses the code up.
    public var wrongVerifierBurnsCode = true
    /// A second token for the same grant in one second is a 500.
    public var onePerSecond = false
    public var scopeAnswer = ScopeAnswer.asGranted
    public var scopeShape = ScopeShape.string
    public var expiresInShape = NumberShape.number
    /// The member that the whole answer is put into; empty is none.
    public var wrap = ""
  }

  /// The refresh token grant.
  public struct Refresh: Sendable {
    /// The answer to a refresh token that is not good.
    public enum BadToken: String, Sendable, CaseIterable {
      case invalidGrant = "invalid_grant"
      case invalidRequest = "invalid_request"
      case empty400 = "empty_400"
      case empty403 = "empty_403"
    }

    /// What a rotated refresh token gives that comes again within `grace`.
    public enum Parallel: String, Sendable, CaseIterable {
      case asRotated = "as_rotated"
      /// Tokens, but they and the first ones are dead.
      case bothDie = "both_die"
      /// 500 for each refresh that arrives while another is in flight.
      case error500 = "error_500"
    }

    /// What `scope` and `resource` do.
    public enum Narrowing: String, Sendable, CaseIterable {
      case honoured
      /// `invalid_scope`, or `invalid_target`.
      case refused
      /// The full scope all the same.
      case ignored
    }

    public var badToken = BadToken.invalidGrant
    public var parallel = Parallel.asRotated
    public var narrowing = Narrowing.honoured
    /// Whether a narrowed refresh rotates as others do; else the refresh token stays and the answer has none.
    public var narrowedRotates = true
    /// Whether the access token before dies at once.
    public var killsAccessToken = false
    /// Whether a refresh token that stays lives `refreshTTL` from its last use.
    public var prolongs = false
  }
}

extension DemoServer.Settings {
  public typealias JSON = DemoServer.JSON
}
