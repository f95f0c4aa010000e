public import OAuth

/// A login that is waiting for the user.
public struct SavedLogin: Sendable, Equatable {
  public var id: LoginID
  public var provider: ProviderName
  public var account: AccountName
  /// The `state` of the authorization request (RFC 6749 §4.1.1), valid once.
  public var state: Secret
  public var nonce: Secret?
  /// The PKCE verifier (RFC 7636 §4.1).
  public var verifier: Secret?
  /// The string sent in the authorization request; the token request repeats it (RFC 6749 §4.1.3).
  public var redirectURI: String
  public var scopes: [String]
  public var resource: String?
  /// The audience that the authorization request names (`audience_parameter`).
  public var audience: String?
  /// `max_age` of the request in seconds, if any.
  public var maxAge: Int64?
  /// The user who started it.
  public var uid: UInt32
  public var startedAt: Timestamp
  public var expiresAt: Timestamp
  /// The private key that the tokens will be bound to (RFC 9449); nil: unbound.
  public var dpopKey: Secret?
  /// A login on another device (RFC 8628), which is polled.
  public var device: DeviceLogin?
  /// Data for later steps of the exchange with the provider.
  public var memory: [String: Secret] = [:]
  /// The action that the user must complete first; nil: sign in.
  public var action: LoginAction?
  /// False: the authorization code itself is the result.
  public var exchangesCode = true
  /// The first offered destination, and the opened one as reported by the client.
  public var offered: OpenedDestination?
  public var opened: OpenedDestination?
  /// The user whose browser may open the link and return the callback; nil: the user who started the login.
  public var browserUID: UInt32?
  public var link: LoginLink?
  /// The broker that started it; nil if the store has one owner.
  public var origin: LoginOrigin?

  public init(
    id: LoginID, provider: ProviderName, account: AccountName, state: Secret, nonce: Secret?, verifier: Secret?,
    redirectURI: String, scopes: [String], resource: String?, maxAge: Int64?, uid: UInt32, startedAt: Timestamp,
    expiresAt: Timestamp, dpopKey: Secret? = nil, device: DeviceLogin? = nil
  ) {
    self.id = id
    self.provider = provider
    self.account = account
    self.state = state
    self.nonce = nonce
    self.verifier = verifier
    self.redirectURI = redirectURI
    self.scopes = scopes
    self.resource = resource
    self.maxAge = maxAge
    self.uid = uid
    self.startedAt = startedAt
    self.expiresAt = expiresAt
    self.dpopKey = dpopKey
    self.device = device
  }
}

extension SavedLogin {
  public var browserUser: UInt32 { browserUID ?? uid }

  /// The login has ended, so the secrets of its requests are deleted. Its state is kept to recognise a repeated
  /// callback.
  public mutating func clearSecrets() {
    (nonce, verifier, dpopKey, device, memory) = (nil, nil, nil, nil, [:])
    link?.request = nil
  }
}

/// A login on another device, from the provider's response (RFC 8628 §3.2).
public struct DeviceLogin: Sendable, Equatable {
  /// Sent in each token request.
  public var deviceCode: Secret
  /// The code that the user enters, and the page for it. Both are shown only to the caller that started the login.
  public var userCode: String
  public var verificationURI: String
  public var verificationURIComplete: String?
  /// The minimum time between two requests; `slow_down` increases it permanently (RFC 8628 §3.5).
  public var interval: Duration

  public init(
    deviceCode: Secret, userCode: String, verificationURI: String, verificationURIComplete: String?,
    interval: Duration
  ) {
    self.deviceCode = deviceCode
    self.userCode = userCode
    self.verificationURI = verificationURI
    self.verificationURIComplete = verificationURIComplete
    self.interval = interval
  }
}

/// The broker that started a login, and the run of it: ``SavedLogin/uid`` is a user of its machine.
public struct LoginOrigin: Sendable, Hashable {
  public var node: String
  public var run: String

  public init(node: String, run: String) {
    self.node = node
    self.run = run
  }
}
