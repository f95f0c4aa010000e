extension DemoServer.Fault {
  /// An endpoint, or a kind of request at it.
  public enum Place: String, Sendable, CaseIterable {
    case any = "*"
    case discovery
    case jwks
    case authorize
    case par
    case device
    case devicePage = "device.page"
    case token
    case tokenCode = "token.code"
    case tokenRefresh = "token.refresh"
    case tokenDevice = "token.device"
    case tokenClient = "token.client_credentials"
    case tokenAssertion = "token.jwt_bearer"
    case tokenExchange = "token.exchange"
    case tokenPassword = "token.password"
    case userinfo
    /// A protected resource that takes any access token.
    case resource
    case revoke
    case introspect
    case register
    case endSession = "end_session"
    /// The way back from the native app of a bridge (7Pass).
    case external
    /// The video management system: all that follow.
    case vms
    case vmsBasic = "vms.basic"
    case vmsURL = "vms.url"
    case vmsPage = "vms.page"
    case vmsLogin = "vms.login"
    case vmsLogout = "vms.logout"
    case vmsSessions = "vms.sessions"
    /// The end of one session.
    case vmsSession = "vms.session"
    case vmsUser = "vms.user"
    /// Zephr: all that follow.
    case zephr
    case zephrStart = "zephr.start"
    case zephrPage = "zephr.page"
    case zephrRegister = "zephr.register"
    case zephrProfile = "zephr.profile"
    case zephrLogout = "zephr.logout"

    /// Whether a fault set for this place hits a request at `other`.
    func covers(_ other: Place) -> Bool {
      self == other || self == .any || (self == .token && Self.tokens.contains(other))
        || ([.vms, .zephr].contains(self) && other.rawValue.hasPrefix("\(rawValue)."))
    }

    /// The token endpoint, whatever the grant.
    static let tokens: Set<Place> = [
      .token, .tokenCode, .tokenRefresh, .tokenDevice, .tokenClient, .tokenAssertion, .tokenExchange, .tokenPassword,
    ]

    /// By the `grant_type` of a token request.
    init(grantType: String?) {
      self =
        switch grantType {
        case "authorization_code": .tokenCode
        case "refresh_token": .tokenRefresh
        case "client_credentials": .tokenClient
        case "password": .tokenPassword
        case "urn:ietf:params:oauth:grant-type:device_code": .tokenDevice
        case "urn:ietf:params:oauth:grant-type:jwt-bearer": .tokenAssertion
        case "urn:ietf:params:oauth:grant-type:token-exchange": .tokenExchange
        default: .token
        }
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
    /// `use_dpop_nonce`, each time with a new nonce that it will not take either.
    case useDPoPNonce = "use_dpop_nonce"
    /// The DPoP-Nonce header is left out.
    case noNonceHeader = "no_nonce_header"
    case truncated
    case hugeBody = "huge_body"
    case slowBody = "slow_body"
    case formEncoded = "form_encoded"
    case clockOffset = "clock_offset"
    case wrongIssuer = "wrong_issuer"
    case missingIss = "missing_iss"
    case wrongIss = "wrong_iss"
    case missingState = "missing_state"
    case wrongState = "wrong_state"
    /// An access token besides the code.
    case tokenInCallback = "token_in_callback"
    /// A plain response where a signed one was asked for (JARM).
    case plainResponse = "plain_response"
    case unknownKid = "unknown_kid"
    case algNone = "alg_none"
    case algHS256 = "alg_hs256"
    case critHeader = "crit_header"
    case badSignature = "bad_signature"
    case wrongNonce = "wrong_nonce"
    case wrongAudience = "wrong_audience"
    case wrongSubject = "wrong_subject"
    case expired
    case claimAbsent = "claim_absent"
    case audienceList = "aud_list"
    /// The client among others, and no `azp`.
    case audienceShared = "aud_shared"
    case authTimeZero = "auth_time_zero"
    case authTimeFloat = "auth_time_float"
    case wrongHash = "at_hash_wrong"
    case keysWithoutAlgorithm = "jwks_without_alg"
    case keysWithoutUse = "jwks_without_use"
    case keysWithoutIdentifier = "jwks_without_kid"
    case expiresInString = "expires_in_string"
    case expiresInAbsent = "expires_in_absent"
    case expiresInHuge = "expires_in_huge"
    case expiresInNegative = "expires_in_negative"
    case expiresInZero = "expires_in_zero"
    case noRefreshToken = "no_refresh_token"
    case emptyRefreshToken = "empty_refresh_token"
    case noIDToken = "no_id_token"
    case tokenType = "token_type"
    case noIssuedTokenType = "no_issued_token_type"
    case intervalAbsent = "interval_absent"
    /// `"active": "true"`.
    case activeString = "active_string"
    /// An error of Dropbox's API.
    case dropboxError = "dropbox_error"
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
    case .useDPoPNonce: (.replacement, Self.proven)
    case .noNonceHeader: (.delivery, Self.proven)
    case .clockOffset: (.issuing, Self.everywhere)
    case .wrongIssuer: (.issuing, Place.tokens.union([.discovery, .userinfo]))
    case .missingIss, .wrongIss, .tokenInCallback, .plainResponse: (.issuing, [.authorize])
    case .missingState, .wrongState: (.issuing, [.authorize, .endSession])
    case .unknownKid, .algNone, .algHS256, .critHeader, .badSignature, .wrongAudience, .expired, .claimAbsent:
      (.issuing, Place.tokens.union([.authorize, .userinfo]))
    case .wrongSubject: (.issuing, Place.tokens.union([.userinfo]))
    case .wrongNonce, .audienceList, .audienceShared, .authTimeZero, .authTimeFloat, .wrongHash:
      (.issuing, Place.tokens)
    case .keysWithoutAlgorithm, .keysWithoutUse, .keysWithoutIdentifier: (.issuing, [.jwks])
    case .expiresInString, .expiresInAbsent, .expiresInHuge, .expiresInNegative, .expiresInZero:
      (.members, Place.tokens.union([.par, .device]))
    case .formEncoded, .noRefreshToken, .emptyRefreshToken, .noIDToken, .tokenType: (.members, Place.tokens)
    case .noIssuedTokenType: (.members, [.tokenExchange])
    case .intervalAbsent: (.members, [.device])
    case .activeString: (.members, [.introspect])
    case .dropboxError: (.replacement, [.resource, .revoke])
    }
  }

  /// Where DPoP proofs are taken.
  private static let proven = Place.tokens.union([.userinfo, .resource])
  private static let everywhere = Set(Place.allCases).subtracting([.any])

  /// Whether the fault has an effect on a request at `place`; where it has none, it is not used up.
  func acts(at place: Place) -> Bool {
    acts.at.contains(place)
  }
}
