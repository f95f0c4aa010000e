public enum AccountSessions: TokenRelease {
  public static let name = "account.sessions"
  public static let access = Access.observe
  public static let summary = "Lists the user's sessions at the provider, if it has such a list."
  public static let errors: [ErrorReason] = ProviderQuestion.errors

  public typealias Params = ProviderQuestion.Params

  public struct Result: Codable, Sendable, Equatable {
    public var sessions: [SessionView]

    public init(sessions: [SessionView]) {
      self.sessions = sessions
    }
  }

  public static let paramDocs = ProviderQuestion.paramDocs
  public static let resultDocs = ["sessions": "The sessions, as the provider tells them."]
  public static let example = MethodExample(
    params: ["account": "cameras"],
    result: [
      "sessions": [
        [
          "session_id": "17", "user_agent": "Firefox", "client": "web", "ip": "192.0.2.7", "online": true,
          "current": false,
        ]
      ]
    ])
}

public enum AccountEndSession: TokenRelease {
  public static let name = "account.end_session"
  public static let access = Access.manage
  public static let summary = "Ends one of the user's sessions at the provider."
  public static let errors: [ErrorReason] = ProviderQuestion.errors

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var session_id: String
    public var timeout: Double?

    public init(account: String, session_id: String, timeout: Double? = nil) {
      self.account = account
      self.session_id = session_id
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var ended: Bool

    public init(ended: Bool) {
      self.ended = ended
    }
  }

  public static let paramDocs = [
    "account": "The account's name.",
    "session_id": "As `account.sessions` names it.",
    "timeout": "Seconds to wait for the provider; at most 300. Default 30.",
  ]
  public static let resultDocs = ["ended": "False where the provider has no such session."]
  public static let example = MethodExample(
    params: ["account": "cameras", "session_id": "17"], result: ["ended": true])
}
