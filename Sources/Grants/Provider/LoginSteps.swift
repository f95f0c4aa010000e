public import FoundationEssentials
public import OAuth

// What happens to a login between its start and its tokens.

/// What an address that came back means for a login that waits.
public enum CallbackClaim: Sendable, Equatable {
  /// Nothing.
  case foreign
  /// It names the login by a secret that only the login's own answer has.
  case named
  /// It comes where this login's answer does, and the provider puts nothing into it that names a login.
  case unnamed
  /// It comes where this login's answer does, and is not it: it is refused, and the login waits.
  case refused(CallbackError)
  /// Another application's answer to the provider: the browser goes on there, and the login waits.
  case passOn(URL)
}

/// What a callback, a code or what a person gave comes to, every check done.
public enum LoginAnswer: Sendable {
  /// To be traded for tokens; `memory` is remembered with the login until then.
  case code(Secret, memory: [String: Secret])
  case issued(Issued)
  /// The person has to do something more, and the login waits for that, with this to remember in place of what it had.
  case action(LoginAction, memory: [String: Secret])
}

/// What a person has to do before a login can end.
public enum LoginAction: Sendable, Equatable, Codable {
  /// As many sessions are open as the provider allows: one of them has to be replaced. `limit`: how many, where the
  /// provider says.
  case sessionLimit(limit: Int64?, sessions: [ProviderSession])
  /// The provider wants to know more of the person. `identifier`: by what it knows them already, such as an e-mail
  /// address.
  case registration(identifier: String?)
}

/// A session of the person's at the provider.
public struct ProviderSession: Sendable, Equatable, Codable {
  public var id: String
  /// The program that it is open in.
  public var userAgent: String?
  public var client: String?
  public var address: String?
  public var isOnline: Bool?
  public var isCurrent: Bool?
  /// When it was last used, as the provider writes it.
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

/// What a person answered to a ``LoginAction``.
public enum LoginInput: Sendable {
  /// The session to replace.
  case session(String)
  /// The provider named no session: one may have ended meanwhile.
  case again
  /// A JSON object: what the provider wants to know.
  case attributes(Data)
}

/// What the provider has against what a person gave: they can mend it, and the login waits.
public struct Rejection: Sendable, Equatable {
  /// In a word: `user_exists`, `email_domain_blocked`, `bad_request`, …
  public var code: String
  /// For people.
  public var message: String
  /// By field, what is wrong with it, as the provider says.
  public var fields: [String: [String]]
  /// What the person does next; nil: correct it and send it again.
  public var hint: String?

  public init(code: String, message: String, fields: [String: [String]] = [:], hint: String? = nil) {
    self.code = code
    self.message = message
    self.fields = fields
    self.hint = hint
  }
}

/// An application on this machine that signs people in.
public struct NativePlace: Sendable, Equatable {
  /// Its name in the configuration.
  public var app: String
  public var url: URL

  public init(app: String, url: URL) {
    self.app = app
    self.url = url
  }
}

/// Where a login was opened, as whoever opened it says.
public struct OpenedDestination: Sendable, Equatable, Codable {
  public var kind: String
  public var app: String?

  public init(kind: String, app: String?) {
    self.kind = kind
    self.app = app
  }
}
