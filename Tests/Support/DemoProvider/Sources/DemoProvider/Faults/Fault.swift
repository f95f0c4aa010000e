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
  /// What a kind may be given; what is absent takes the value named here.
  public struct Parameters: Sendable, Hashable {
    /// `delay`: how long (1 s), or until it is let go. `dropbox_error`: its `retry_after` (3 s). `clock_offset`: how far off, either way (−300 s).
    public var seconds: Double?
    /// `delay`, and each answer that replaces the right one: before the state change (this one), or after it.
    public var moment: Moment = .before
    /// `status`: 503. `oauth_error`: 400. `redirect`: 302.
    public var status: Int?
    /// `status`, `dropbox_error`: a `Retry-After` value, as it stands.
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
    /// `token_type` (`mac`), `wrong_issuer`, `wrong_iss`, `wrong_nonce`, `wrong_audience`, `wrong_subject`,
    /// `wrong_state`: the wrong value. `claim_absent`: which claim (`at_hash`). `dropbox_error`: the tag
    /// (`expired_access_token`).
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
