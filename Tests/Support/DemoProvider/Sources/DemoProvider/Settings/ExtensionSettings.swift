extension DemoServer.Settings {
  /// Device authorization (RFC 8628).
  public struct Device: Sendable {
    /// The answer to a device code that is not known.
    public enum Unknown: String, Sendable, CaseIterable {
      case invalidGrant = "invalid_grant"
      case notFound = "not_found"
    }

    /// The answer once the device code has expired.
    public enum Expired: String, Sendable, CaseIterable {
      case expiredToken = "expired_token"
      case invalidGrant = "invalid_grant"
    }

    public var interval: Duration = .seconds(5)
    public var ttl: Duration = .seconds(600)
    /// Whether polls that come too fast get `slow_down`.
    public var slowDown = true
    public var unknown = Unknown.invalidGrant
    public var expired = Expired.expiredToken
    /// Whether the link is called `verification_url`, as before the RFC.
    public var verificationURL = false
    /// Whether the answer has `verification_uri_complete`.
    public var complete = true
    public var idToken = true
    /// Members laid over the device authorization answer.
    public var extra: [String: JSON] = [:]
  }

  /// DPoP (RFC 9449).
  public struct DPoP: Sendable {
    public enum Mode: String, Sendable, CaseIterable {
      case accepted
      case required
      /// Proofs are not looked at, and tokens are bearer tokens.
      case ignored
    }

    /// The endpoints whose proofs need the server's nonce.
    public enum Nonce: String, Sendable, CaseIterable {
      case none, token, resource, both
    }

    public enum NonceRotation: String, Sendable, CaseIterable {
      /// With `rotate_dpop_nonce` only.
      case manual
      /// A nonce is good once; each answer brings the next.
      case eachUse = "each_use"
    }

    public var mode = Mode.accepted
    public var nonce = Nonce.none
    public var nonceRotation = NonceRotation.manual
  }

  /// Userinfo and the other protected resource.
  public struct Resource: Sendable {
    /// What a 401 looks like.
    public enum Unauthorized: String, Sendable, CaseIterable {
      case challenge, empty
      /// A challenge without its scheme.
      case noScheme = "no_scheme"
      /// JSON typed text/html, without a challenge.
      case jsonAsHTML = "json_as_html"
    }

    public var unauthorized = Unauthorized.challenge
    /// Whether userinfo is a signed JWT (OIDC Core §5.3.2).
    public var userinfoSigned = false
  }

  /// Revocation and the end of sessions.
  public struct Logout: Sendable {
    /// Whether a wrong `token_type_hint` leaves the token alive, with 200 all the same.
    public var strictHint = false
    /// Whether `end_session` ends the grant of its hint.
    public var endSessionEndsGrants = false
  }

  /// Dynamic registration (RFC 7591, RFC 7592).
  public struct Registration: Sendable {
    public var status = 201
    /// How long a new client is unknown at every other endpoint.
    public var delay: Duration = .zero
    /// The initial access token; empty is open registration.
    public var token = ""
    /// Whether each management request brings a new registration access token.
    public var tokenRotates = false
    /// Members laid over the answer.
    public var extra: [String: JSON] = [:]
  }
}
