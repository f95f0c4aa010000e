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

  init(_ result: JSON) throws(GrantError) {
    let cookie = result["cookie"]?.string.map { SecretText($0) }
    access = SecretText(result["access_token"]?.string ?? "")
    guard let generation = result["generation"]?.integer, generation >= 0, !access.isEmpty || cookie?.isEmpty == false
    else { throw .bad("has no token") }
    self.generation = generation
    session = (cookie, result["session_id"]?.string.map { SecretText($0) })
    account = result["account"]?.string ?? ""
    provider = result["provider"]?.string ?? ""
    issuer = result["issuer"]?.string
    scope = result["scope"]?.array?.compactMap(\.string) ?? []
    expiresAt = result["expires_at"]?.integer
    type = result["token_type"]?.string ?? "Bearer"
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
