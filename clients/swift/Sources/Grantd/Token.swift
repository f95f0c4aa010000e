import BrokerAPI

/// The result of `token.get` (docs/rpc.md). Printing, `dump` and `Mirror` show no secret.
public struct Token: Sendable {
  public let account: String
  public let provider: String
  public let issuer: String?
  public let scope: [String]
  /// For ``GrantClient/reportRejected(_:timeout:)``.
  public let generation: Int64
  /// Unix seconds; nil if the provider gave no lifetime.
  public let expiresAt: Int64?
  public let type: String
  /// Empty if the provider uses sessions; then ``cookie`` and ``sessionID`` are set.
  public var accessToken: String { access.exposed }
  /// The session as a `Cookie` header has it.
  public var cookie: String? { session.cookie?.exposed }
  /// The session. It is a secret.
  public var sessionID: String? { session.id?.exposed }

  private let access: SecretText
  private let session: (cookie: SecretText?, id: SecretText?)

  /// The members of an answer.
  struct Members {
    var access, cookie, session, account, provider, issuer, type: String?
    var scope: [String]?
    var generation, expiresAt: Int64?
  }

  init(_ result: JSON) throws(GrantError) {
    var members = Members()
    members.access = result["access_token"]?.string
    members.cookie = result["cookie"]?.string
    members.session = result["session_id"]?.string
    members.account = result["account"]?.string
    members.provider = result["provider"]?.string
    members.issuer = result["issuer"]?.string
    members.type = result["token_type"]?.string
    members.scope = result["scope"]?.array?.compactMap(\.string)
    members.generation = result["generation"]?.integer
    members.expiresAt = result["expires_at"]?.integer
    try self.init(members)
  }

  init(_ members: Members) throws(GrantError) {
    access = SecretText(members.access ?? "")
    session = (members.cookie.map { SecretText($0) }, members.session.map { SecretText($0) })
    guard let generation = members.generation, generation >= 0, !access.isEmpty || session.cookie?.isEmpty == false
    else { throw .bad("has no token") }
    self.generation = generation
    account = members.account ?? ""
    provider = members.provider ?? ""
    issuer = members.issuer
    scope = members.scope ?? []
    expiresAt = members.expiresAt
    type = members.type ?? "Bearer"
  }

  /// The name and the value of the header of a request: `Authorization` (RFC 6750 §2.1), or `Cookie` for a session.
  public var header: (name: String, value: String) {
    access.isEmpty ? ("Cookie", cookie ?? "") : ("Authorization", "\(type) \(accessToken)")
  }
}

extension Token: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "token of \(account), generation \(generation), ‹redacted›" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: ["account": account, "generation": generation]) }
}
