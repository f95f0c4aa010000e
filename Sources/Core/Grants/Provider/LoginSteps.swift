public import FoundationEssentials
public import OAuth

// The steps of a login between its start and its tokens.

/// The meaning of a callback URL for a pending login.
public enum CallbackClaim: Sendable, Equatable {
  /// Unrelated.
  case foreign
  /// It contains a secret that only this login's response has.
  case named
  /// It matches this login's redirect URI, and the provider's callbacks contain no login identifier.
  case unnamed
  /// It matches this login's redirect URI but is not a valid response: it is refused, and the login stays pending.
  case refused(CallbackError)
  /// Another application's response to the provider: the browser is redirected there, and the login stays pending.
  case passOn(URL)
}

/// The result of a callback, a code or user input, after all checks.
public enum LoginAnswer: Sendable {
  /// To be exchanged for tokens; `memory` is stored with the login until then.
  case code(Secret, memory: [String: Secret])
  case issued(Issued)
  /// The user must do something else first. The login stays pending and stores this memory instead of the old one.
  case action(LoginAction, memory: [String: Secret])
}

/// An action that the user must complete before a login can end.
public enum LoginAction: Sendable, Equatable, Codable {
  /// The maximum number of sessions is open: one must be replaced. `limit`: the maximum, if the provider reports it.
  case sessionLimit(limit: Int64?, sessions: [ProviderSession])
  /// The provider requires more data about the user. `identifier`: its existing identifier of the user, such as an
  /// e-mail address.
  case registration(identifier: String?)
}

/// A session of the user at the provider.
public struct ProviderSession: Sendable, Equatable, Codable {
  public var id: String
  /// The program that uses the session.
  public var userAgent: String?
  public var client: String?
  public var address: String?
  public var isOnline: Bool?
  public var isCurrent: Bool?
  /// The time of its last use, in the provider's format.
  public var lastUsed: String?

  public init(
    id: String, userAgent: String? = nil, client: String? = nil, address: String? = nil, isOnline: Bool? = nil,
    isCurrent: Bool? = nil, lastUsed: String? = nil
  ) {
    self.id = id
    self.userAgent = userAgent
    self.client = client
    self.address = address
    self.isOnline = isOnline
    self.isCurrent = isCurrent
    self.lastUsed = lastUsed
  }
}

/// The user's response to a ``LoginAction``.
public enum LoginInput: Sendable {
  /// The session to replace.
  case session(String)
  /// The provider named no session: one may have ended in the interim.
  case again
  /// A JSON object with the data that the provider requires.
  case attributes(Data)
}

/// The provider rejected the user's input: the user can correct it, and the login stays pending.
public struct Rejection: Sendable, Equatable {
  /// A code: `user_exists`, `email_domain_blocked`, `bad_request`, …
  public var code: String
  /// For users.
  public var message: String
  /// The errors by field, as the provider reports them.
  public var fields: [String: [String]]
  /// The user's next step; nil: correct the input and send it again.
  public var hint: String?

  public init(code: String, message: String, fields: [String: [String]] = [:], hint: String? = nil) {
    self.code = code
    self.message = message
    self.fields = fields
    self.hint = hint
  }
}

/// An application on this machine that signs users in.
public struct NativePlace: Sendable, Equatable {
  /// Its name in the configuration.
  public var app: String
  public var url: URL

  public init(app: String, url: URL) {
    self.app = app
    self.url = url
  }
}

/// The destination in which a login was opened, as reported by the caller.
public struct OpenedDestination: Sendable, Equatable, Codable {
  public var kind: String
  public var app: String?

  public init(kind: String, app: String?) {
    self.kind = kind
    self.app = app
  }
}
