/// A step that the user must complete before a login can end.
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
      "`session_limit`: one of `sessions` must be replaced: `login.continue` with its `session_id`; without sessions, end one at the provider, then call `login.continue`; `registration`: the provider needs more data about the user: `login.continue` with `attributes`.",
    "message": "For people.",
    "sessions_limit": "The provider's maximum number of sessions, if reported.",
    "sessions": "The sessions that are open.",
    "identifier": "Data that the provider already has about the user, such as an e-mail address.",
  ]
}

/// A session of the user at the provider.
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
    "client": "The provider's name of that program.",
    "ip": "The place from which it was opened.",
    "online": "Whether it is in use now.",
    "current": "Whether it is the one that asks.",
    "last": "When it was last used, as the provider writes it.",
  ]
}

public enum LoginContinue: RPCMethod {
  public static let name = "login.continue"
  public static let access = Access.login
  public static let summary = "Continues a login that waits for a further step of the user (`action_required`)."
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
      "For `registration`: the attributes that the provider asks for, by name. Without any the provider lists them.",
  ]
  public static let resultDocs = LoginWait.resultDocs
  public static let example = MethodExample(
    params: ["login_id": "Zk3vS0JvVbq2", "session_id": "17"],
    result: ["login_id": "Zk3vS0JvVbq2", "state": "completed", "account": MethodExample.account])
}
