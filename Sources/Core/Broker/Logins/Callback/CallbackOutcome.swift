public import BrokerAPI
public import Grants

/// The result of a callback URL: shown by the callback page and returned by `login.handle_callback`.
public enum CallbackOutcome: Sendable, Equatable {
  case completed(LoginID, Completion)
  /// Second use of a callback: nothing was done again.
  case alreadyCompleted(LoginID)
  /// A further step is required in the program that began the login.
  case actionRequired(LoginID, message: String)
  /// The login was not completed in time.
  case expired(RPCError)
  /// The login ended with this error.
  case failed(RPCError)
  /// Forged, duplicate, late or for another server: the login stays pending.
  case refused(RPCError)
  /// It is for no login of this broker.
  case foreign(RPCError)
  /// Back from the end of the session at the provider (OpenID Connect RP-Initiated Logout §3).
  case signedOut(provider: String)
  /// The browser must continue elsewhere.
  case redirect(url: String)
  /// The login is for another user's browser, and stays pending.
  case otherUser
  /// The browser's user is unknown; the login stays pending.
  case unknownUser

  /// A completed login.
  public struct Completion: Sendable, Equatable {
    public var account: String
    public var provider: String
    /// The user, if the provider named one.
    public var identity: SignedIn?
    /// The path of the program that started the login, if this run of the broker knows it.
    public var program: String?

    public init(account: String, provider: String, identity: SignedIn? = nil, program: String? = nil) {
      self.account = account
      self.provider = provider
      self.identity = identity
      self.program = program
    }
  }

  init(_ refusal: BrowserRefusal) {
    switch refusal {
    case .otherUser: self = .otherUser
    case .unknownUser: self = .unknownUser
    }
  }

  /// The next step for a browser, with the command of this login: its page is all that the user sees.
  func naming(_ login: SavedLogin) -> Self {
    func named(_ error: RPCError) -> RPCError {
      var error = error.naming(login)
      error.hint = error.hint ?? "Run `\(login.command)` again."
      return error
    }
    return switch self {
    case .expired(let error): .expired(named(error))
    case .failed(let error): .failed(named(error))
    case .completed, .alreadyCompleted, .actionRequired, .refused, .foreign, .signedOut, .redirect, .otherUser,
      .unknownUser:
      self
    }
  }
}

/// Who was signed in, in the words of the provider.
public struct SignedIn: Sendable, Equatable {
  /// What tells people apart best: an e-mail address, a user name, a name or the subject.
  public var bestName: String
  public var name: String?

  public init(bestName: String, name: String? = nil) {
    self.bestName = bestName
    self.name = name
  }
}

extension RPCError {
  /// Its next step with the command of this login.
  func naming(_ login: SavedLogin) -> Self {
    var error = self
    error.hint = hint?.replacing("`grantctl login`", with: "`\(login.command)`")
    return error
  }
}

extension SavedLogin {
  fileprivate var command: String { "grantctl login \(provider) \(account)" }
}
