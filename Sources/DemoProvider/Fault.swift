extension DemoServer {
  /// Something that goes wrong on demand: what, at which endpoint, how often.
  public struct Fault: Sendable, Hashable {
    public var kind: Kind
    public var place: Place
    /// How many requests it still hits; nil is all of them until `reset`.
    public var times: Int?
    public var parameters: Parameters

    public init(_ kind: Kind, at place: Place, times: Int? = nil, _ parameters: Parameters = Parameters()) {
      self.kind = kind
      self.place = place
      self.times = times
      self.parameters = parameters
    }
  }
}

extension DemoServer.Fault {
  /// An endpoint, or a kind of request at it.
  public enum Place: String, Sendable, CaseIterable {
    case any = "*"
    case discovery
    case jwks
    case authorize
    case token
    case tokenCode = "token.code"
    case tokenRefresh = "token.refresh"
    case userinfo
    case revoke
    case introspect
    case endSession = "end_session"

    /// Whether a fault set for this place hits a request at `other`.
    func covers(_ other: Place) -> Bool {
      self == other || self == .any || (self == .token && (other == .tokenCode || other == .tokenRefresh))
    }
  }

  /// Whether the state change happens before the fault: what distinguishes a refused request from a lost answer.
  public enum Moment: String, Sendable, CaseIterable {
    case before
    case after
  }

  /// What a fault does; each name is its name in the control API.
  public enum Kind: String, Sendable, CaseIterable {
    case delay
    case dropBeforeCommit = "drop_before_commit"
    case dropAfterCommit = "drop_after_commit"
    case status
    case oauthError = "oauth_error"
    case html200 = "html_200"
    case error200 = "error_200"
    case empty400 = "empty_400"
    case redirect
    case truncated
    case hugeBody = "huge_body"
    case slowBody = "slow_body"
    case formEncoded = "form_encoded"
    case clockOffset = "clock_offset"
    case wrongIssuer = "wrong_issuer"
    case missingIss = "missing_iss"
    case wrongIss = "wrong_iss"
    case unknownKid = "unknown_kid"
    case algNone = "alg_none"
    case badSignature = "bad_signature"
    case wrongNonce = "wrong_nonce"
    case wrongAudience = "wrong_audience"
    case expiresInString = "expires_in_string"
    case expiresInAbsent = "expires_in_absent"
    case expiresInHuge = "expires_in_huge"
    case expiresInNegative = "expires_in_negative"
    case expiresInZero = "expires_in_zero"
    case noRefreshToken = "no_refresh_token"
    case emptyRefreshToken = "empty_refresh_token"
    case tokenType = "token_type"
  }

  /// Where in a request's life a fault acts.
  enum Stage {
    /// Time passes, before or after the state change.
    case timing
    /// Another answer takes the place of the right one.
    case replacement
    /// What the work itself issues: identifiers, claims, signatures, times.
    case issuing
    /// The members of the JSON answer.
    case members
    /// How the bytes leave.
    case delivery
  }
}

extension DemoServer.Fault.Kind {
  typealias Place = DemoServer.Fault.Place

  /// The table: where each fault acts, in a request's life and at which endpoints.
  var acts: (stage: DemoServer.Fault.Stage, at: Set<Place>) {
    switch self {
    case .delay: (.timing, Self.everywhere)
    case .dropBeforeCommit, .dropAfterCommit, .truncated, .hugeBody, .slowBody: (.delivery, Self.everywhere)
    case .status, .oauthError, .html200, .error200, .empty400, .redirect: (.replacement, Self.everywhere)
    case .clockOffset: (.issuing, Self.everywhere)
    case .wrongIssuer: (.issuing, [.discovery, .tokenCode, .tokenRefresh])
    case .missingIss, .wrongIss: (.issuing, [.authorize])
    case .unknownKid, .algNone, .badSignature, .wrongNonce, .wrongAudience: (.issuing, Self.tokens)
    case .formEncoded, .expiresInString, .expiresInAbsent, .expiresInHuge, .expiresInNegative, .expiresInZero,
      .noRefreshToken, .emptyRefreshToken, .tokenType:
      (.members, Self.tokens)
    }
  }

  private static let tokens: Set<Place> = [.token, .tokenCode, .tokenRefresh]
  private static let everywhere = Set(Place.allCases).subtracting([.any])

  /// Whether the fault has an effect on a request at `place`; where it has none, it is not used up.
  func acts(at place: Place) -> Bool {
    acts.at.contains(place)
  }
}

extension DemoServer.Fault {
  /// What a kind may be given; what is absent takes the value named here.
  public struct Parameters: Sendable, Hashable {
    /// `delay`: how long (1 s). `clock_offset`: how far off, either way (−300 s).
    public var seconds: Double?
    /// `delay`, and each answer that replaces the right one: before the state change (this one), or after it.
    public var moment: Moment = .before
    /// `status`: 503. `oauth_error`: 400. `redirect`: 302.
    public var status: Int?
    /// `status`: a `Retry-After` value, as it stands.
    public var retryAfter: String?
    /// `status`: the body (none) and its type (text/plain).
    public var body: String?
    public var contentType: String?
    /// `huge_body`: how many bytes follow the answer (8 MiB).
    public var bytes: Int?
    /// `slow_body`: 20 by default.
    public var bytesPerSecond: Int?
    /// `oauth_error`, `error_200`: `invalid_grant`.
    public var error: String?
    public var errorDescription: String?
    /// `redirect`: where to (`/elsewhere`).
    public var location: String?
    /// `token_type` (`mac`), `wrong_issuer`, `wrong_iss`, `wrong_nonce`, `wrong_audience`: the wrong value.
    public var value: String?

    public init() {}

    /// Parameters written in place: `.with { $0.status = 429 }`.
    public static func with(_ change: (inout Self) -> Void) -> Self {
      var parameters = Self()
      change(&parameters)
      return parameters
    }
  }
}
