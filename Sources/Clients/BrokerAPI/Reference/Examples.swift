/// One call of each method as the reference shows it. A test decodes each as the method's types.
public struct MethodExample: Sendable {
  /// Null: the call has no `params`.
  public var params: JSON
  public var result: JSON

  static let account: JSON = [
    "account": "work", "provider": "google", "state": "ok",
    "identity": [
      "subject": "110169484474386276334", "issuer": "https://accounts.google.com", "email": "ada@example.com",
    ],
    "scopes": ["openid", "email"], "generation": 7, "expires_at": 1_767_229_199, "next_refresh_at": 1_767_228_599,
    "last_refresh_at": 1_767_225_599, "logged_in_at": 1_766_000_000,
  ]

  static let provider: JSON = [
    "provider": "google", "kind": "oidc", "profile": "google", "display_name": "Google",
    "issuer": "https://accounts.google.com", "client_id": "123.apps.example.com", "scopes": ["openid", "email"],
    "accounts": 2, "state": "ok",
  ]

  static let event: JSON = [
    "jsonrpc": "2.0", "method": .string(Event.method),
    "params": [
      "type": "token.refreshed", "at": 1_767_228_600, "account": "work", "provider": "google", "generation": 8,
    ],
  ]
}
