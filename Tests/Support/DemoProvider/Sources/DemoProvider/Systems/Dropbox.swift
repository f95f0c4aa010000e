import Foundation
import NIOHTTP1
import Synchronization

/// Dropbox: `/oauth2/authorize`, `/oauth2/token`, and its API under `/2/`.
enum Dropbox {
  static let revocation = "/2/auth/token/revoke"
  /// All that an app here has.
  static let scopes = ["account_info.read", "files.metadata.read"]

  /// What a call to the API needs.
  static func scope(for path: String) -> String? {
    if path.hasPrefix("/2/users/") { return "account_info.read" }
    return path.hasPrefix("/2/files/") ? "files.metadata.read" : nil
  }

  /// The redirect URI of every app, in addition to its registered ones.
  static func allows(_ uri: String, _ client: DemoServer.Client) -> Bool { uri == redirectURI(of: client) }

  static func redirectURI(of client: DemoServer.Client) -> String { "db-\(client.id)://2/token" }

  /// The members of a token response that say whose it is.
  static func identity(of user: User) -> [String: DemoServer.JSON] {
    ["uid": .string(user.dropboxID), "account_id": .string(user.dropboxAccount)]
  }

  /// RFC 6749 §5.1 as Dropbox has it: a refresh brings no refresh token.
  static func members(_ issued: Ledger.Issued) -> [String: DemoServer.JSON] {
    var members = issued.grant.approved.user.map(identity) ?? [:]
    members["token_type"] = "bearer"
    members["id_token"] = .null
    if issued.isRefresh { members["refresh_token"] = .null }
    return members
  }

  /// The token in a fragment.
  static func fragment(_ issued: Ledger.Issued, _ user: User) -> [(name: String, value: String)] {
    var pairs = [
      ("access_token", issued.accessToken), ("token_type", "bearer"), ("uid", user.dropboxID),
      ("account_id", user.dropboxAccount),
    ]
    if issued.settings.dropbox.fragmentExpires {
      pairs += [
        ("expires_in", String(Int(issued.settings.accessTTL.asSeconds))),
        ("scope", issued.scopes.joined(separator: " ")),
      ]
    }
    return pairs
  }
}

extension User {
  fileprivate var dropboxID: String { String(10_000 + number) }
  fileprivate var dropboxAccount: String { "dbid:AAH-\(name)" }
}

extension Provider {
  /// Any call to the API; the body of a call that succeeds says what it was.
  func dropbox(_ turn: Turn) -> Response {
    let text = turn.request.credentials(scheme: "Bearer") ?? ""
    let found = ledger.withLock { ledger in
      (access: ledger.access(text, at: turn.now), hasExpired: ledger.hasExpired(text, at: turn.now))
    }
    guard let (token, grant) = found.access else {
      return .dropbox(found.hasExpired ? "expired_access_token" : "invalid_access_token")
    }
    if turn.request.path == Dropbox.revocation { return revokeDropbox(text, grant, turn) }
    if let scope = Dropbox.scope(for: turn.request.path), !token.scopes.contains(scope) {
      return .dropbox("missing_scope", ["required_scope": .string(scope)])
    }
    let user = grant.approved.user
    guard turn.request.path == "/2/users/get_current_account", let user else {
      return .json(["method": .string(turn.request.method.rawValue), "path": .string(turn.request.path)])
    }
    return .json([
      "account_id": .string(user.dropboxAccount), "name": ["display_name": .string(user.fullName)],
      "email": .string(user.email), "email_verified": true,
    ])
  }

  /// The end of the whole grant, for a call with an empty body.
  private func revokeDropbox(_ token: String, _ grant: Ledger.Grant, _ turn: Turn) -> Response {
    guard turn.request.body.isEmpty || turn.request.body == "null" else {
      return Response(status: 400, body: .text("This function takes no argument.", type: "text/plain"))
    }
    ledger.withLock { ledger in
      ledger.end(grant.id, because: "revoked")
      ledger.count(.revocation)
      guard ledger.revocations.count < Limits.revocations else { return }
      ledger.revocations.append(.init(kind: "access_token", hint: nil, revoked: true))
    }
    return .json(.null)
  }
}

extension Response {
  /// An error of the API: its tag, which its summary begins with.
  static func dropbox(_ tag: String, _ more: [String: DemoServer.JSON] = [:]) -> Self {
    .json(
      [
        "error_summary": .string("\(tag)/.."),
        "error": DemoServer.JSON.object([".tag": .string(tag)]).overlaid(with: more),
      ], status: 401)
  }

  /// Too many calls: when to try again, in the body, and in the header where that is given too.
  static func dropboxLimit(seconds: Int, header: String?) -> Self {
    var response = Self.json(
      [
        "error_summary": "too_many_requests/..",
        "error": ["reason": [".tag": "too_many_requests"], "retry_after": .int(seconds)],
      ], status: 429)
    if let header { response.headers.append(("Retry-After", header)) }
    return response
  }
}

extension Ledger {
  /// Whether it was good once, and has nothing against it but its age.
  fileprivate func hasExpired(_ text: String, at now: Date) -> Bool {
    guard let token = accessTokens[text], !token.revoked, now >= token.expires else { return false }
    return grants[token.grant].map { $0.ended == nil } ?? false
  }
}
