// swift-format-ignore-file: AlwaysUseLowerCamelCase
// Members are named as on the wire.

/// What a person has to do before a login can end.
public struct LoginActionView: Codable, Sendable, Equatable, Documented {
  public var kind: Kind
  public var message: String
  public var sessions_limit: Int64?
  public var sessions: [SessionView]?
  public var identifier: String?

  public enum Kind: String, Codable, Sendable, CaseIterable {
    case sessionLimit = "session_limit"
    case registration
  }

  public init(
    kind: Kind, message: String, sessions_limit: Int64? = nil, sessions: [SessionView]? = nil,
    identifier: String? = nil
  ) {
    self.kind = kind
    self.message = message
    self.sessions_limit = sessions_limit
    self.sessions = sessions
    self.identifier = identifier
  }

  public static let docs = [
    "kind":
      "`session_limit`: one of `sessions` has to be replaced: `login.continue` with its `session_id`, or where there are none with nothing more, after one was ended at the provider; `registration`: the provider wants to know more of the person: `login.continue` with `attributes`.",
    "message": "For people.",
    "sessions_limit": "How many sessions the provider allows, where it says.",
    "sessions": "The sessions that are open.",
    "identifier": "By what the provider knows the person already, such as an e-mail address.",
  ]
}

/// A session of the person's at the provider.
public struct SessionView: Codable, Sendable, Equatable, Documented {
  public var session_id: String
  public var user_agent: String?
  public var client: String?
  public var ip: String?
  public var online: Bool?
  public var current: Bool?
  public var last: String?

  public init(
    session_id: String, user_agent: String? = nil, client: String? = nil, ip: String? = nil, online: Bool? = nil,
    current: Bool? = nil, last: String? = nil
  ) {
    self.session_id = session_id
    self.user_agent = user_agent
    self.client = client
    self.ip = ip
    self.online = online
    self.current = current
    self.last = last
  }

  public static let docs = [
    "session_id": "Names the session.",
    "user_agent": "The program that it is open in.",
    "client": "What the provider calls that program.",
    "ip": "Where it was opened from.",
    "online": "Whether it is in use now.",
    "current": "Whether it is the one that asks.",
    "last": "When it was last used, as the provider writes it.",
  ]
}

public enum LoginContinue: RPCMethod {
  public static let name = "login.continue"
  public static let access = Access.login
  public static let summary = "Goes on with a login that waits for a person to do something more (`action_required`)."
  public static let errors: [ErrorReason] = [
    .unknownLogin, .loginInProgress, .loginDenied, .loginExpired, .temporarilyUnavailable, .providerError,
    .providerMisconfigured, .registrationRejected, .unsupportedByProvider, .storeFailure,
  ]

  public struct Params: Codable, Sendable, Equatable {
    public var login_id: String
    public var session_id: String?
    public var attributes: [String: JSON]?

    public init(login_id: String, session_id: String? = nil, attributes: [String: JSON]? = nil) {
      self.login_id = login_id
      self.session_id = session_id
      self.attributes = attributes
    }
  }

  public typealias Result = LoginWait.Result

  public static let paramDocs = [
    "login_id": "As `login.start` returned it.",
    "session_id": "For `session_limit`: the session to replace.",
    "attributes":
      "For `registration`: what the provider wants to know, by name. Without any the provider says what it wants.",
  ]
  public static let resultDocs = LoginWait.resultDocs
  public static let example = MethodExample(
    params: ["login_id": "Zk3vS0JvVbq2", "session_id": "17"],
    result: ["login_id": "Zk3vS0JvVbq2", "state": "completed", "account": MethodExample.account])
}
