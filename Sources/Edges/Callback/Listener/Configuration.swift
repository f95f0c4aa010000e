import OAuth

extension CallbackListener {
  /// The URL of the redirection endpoint, and its limits.
  public struct Configuration: Sendable, Equatable {
    /// The TCP port of every address. 0 = the kernel chooses (RFC 8252 §7.3).
    public var port: Int
    /// The port that it had before a restart, so that logins in flight still come back. Tried first when
    /// `port` is 0; when it is taken, the kernel chooses.
    public var preferredPort: Int?
    /// The paths that are served, compared exactly (no trailing slash, no decoding); `*` at a path's end stands for any
    /// one segment.
    public var paths: [String]
    /// The paths that a reverse proxy passes on from the web; nil: none.
    public var publicSite: PublicSite?
    /// Listen on 127.0.0.1.
    public var ipv4: Bool
    /// Listen on ::1.
    public var ipv6: Bool
    public var limits: Limits
    /// How long the browser waits for the handler. The handler is not cancelled then: a code cannot be sent twice.
    public var handlerDeadline: Duration
    /// The time that a provider waits for the result of its logout token. Less than a reverse proxy's usual minute.
    public var logoutDeadline: Duration

    public init(
      port: Int = 0, preferredPort: Int? = nil, paths: [String] = ["/callback"], publicSite: PublicSite? = nil,
      ipv4: Bool = true, ipv6: Bool = true, limits: Limits = Limits(),
      handlerDeadline: Duration = .seconds(60), logoutDeadline: Duration = .seconds(30)
    ) {
      self.port = port
      self.preferredPort = preferredPort
      self.paths = paths
      self.publicSite = publicSite
      self.ipv4 = ipv4
      self.ipv6 = ipv6
      self.limits = limits
      self.handlerDeadline = handlerDeadline
      self.logoutDeadline = logoutDeadline
    }
  }

  /// The limits of one browser, or of a client that poses as one.
  public struct Limits: Sendable, Equatable {
    /// Bytes of method, target and version, with the line's end.
    public var requestLine = 16 * 1024
    /// Bytes of the target and of all header names and values.
    public var headers = 32 * 1024
    public var headerCount = 100
    /// Bytes of a logout request's body. In chunks it may take about twice as many.
    public var form = LogoutToken.maximumFormBytes
    /// Bytes of a fragment that a page brings, as many as of an address. In chunks it may take about twice as many.
    public var fragment = 16 * 1024
    /// Bytes that are read and thrown away, before the connection is cut: enough that a provider whose form is too large
    /// reads so.
    public var dropped = 1024 * 1024
    /// Read at once, over all addresses; further ones wait. At least 2.
    public var connections = 64
    /// Accepted, and waiting to be read. Beyond that the latest of the user who has the most is closed.
    public var waiting = 256
    /// How long a request may take to come while others wait for its connection's place.
    public var unhurried = Duration.seconds(1)
    /// Handlers at work at once, those included whose browser was answered at the deadline.
    public var handlers = 96
    /// For one user, who may have all connections while no other user needs one. A reverse proxy has the browsers of
    /// many.
    public var handlersPerUser = 64
    /// Concurrent logout tokens. Separate from `handlers`, since unknown hosts may send them: they use no slot of a
    /// sign-in.
    public var logouts = 64
    /// For one provider: forged tokens for it leave slots to those of others.
    public var logoutsPerProvider = 16
    /// From the accepted connection to the end of the request's head; of one that brings something, to the end of its
    /// body.
    public var request: Duration = .seconds(10)
    /// From the accepted connection to its first bytes, when the end begins. Others are connections in advance.
    public var firstWords: Duration = .milliseconds(250)
    /// From the answer to the connection's end.
    public var linger: Duration = .seconds(2)
    /// How long `stop()` waits for handlers at work.
    public var stop: Duration = .seconds(2)

    public init() {}
  }
}
