/// How a provider is presented to people: its kind, its names, and the client that it knows.
public struct ProviderDescription: Sendable, Equatable {
  /// As the configuration writes it.
  public var kind: String
  /// The shipped template, if any.
  public var profile: String?
  public var displayName: String
  public var issuer: String?
  public var clientID: String
  /// The server, where it is configured beside the issuer or without one: the origin of the token endpoint, or the
  /// address that all others begin with.
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

/// Why a provider cannot do what a caller asked for.
public struct Objection: Error, Sendable, Equatable {
  /// The parameter at fault, as the socket names it; nil: none is.
  public var parameter: String?
  public var message: String
  /// What a person does next.
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
