/// The description of a provider for users: its kind, its names, and the client.
public struct ProviderDescription: Sendable, Equatable {
  /// In the format of the configuration.
  public var kind: String
  /// The shipped template, if any.
  public var profile: String?
  public var displayName: String
  public var issuer: String?
  public var clientID: String
  /// The server, if it is configured in addition to the issuer or without one: the origin of the token endpoint, or the
  /// base URL of all others.
  public var server: String?

  public init(
    kind: String, profile: String?, displayName: String, issuer: String?, clientID: String, server: String? = nil
  ) {
    self.kind = kind
    self.profile = profile
    self.displayName = displayName
    self.issuer = issuer
    self.clientID = clientID
    self.server = server
  }
}

/// Why a provider cannot fulfil a caller's request.
public struct Objection: Error, Sendable, Equatable {
  /// The invalid parameter, by its name on the socket; nil: none.
  public var parameter: String?
  public var message: String
  /// The user's next step.
  public var hint: String?

  public init(_ message: String, hint: String? = nil) {
    self.message = message
    self.hint = hint
  }

  public init(_ parameter: String, _ message: String, hint: String? = nil) {
    self.parameter = parameter
    self.message = message
    self.hint = hint
  }
}
