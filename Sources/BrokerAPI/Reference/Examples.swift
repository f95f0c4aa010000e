/// One call of each method as the reference shows it. A test decodes each as the method's types.
public struct MethodExample: Sendable {
  /// Null: the call has no `params`.
  public var params: JSON
  public var result: JSON

  /// The example of a method; every method has one.
  public static func of(_ method: String) -> MethodExample? { all[method] }

  private static let all: [String: MethodExample] = [
    "token.get": MethodExample(
      params: ["account": "work", "min_ttl": 120],
      result: [
        "access_token": "ya29.a0AfH6SMC", "token_type": "Bearer", "expires_at": 1_767_229_199, "expires_in": 3599,
        "scope": ["openid", "email"], "account": "work", "provider": "google", "issuer": "https://accounts.google.com",
        "generation": 7,
      ]),
    "token.report_rejected": MethodExample(
      params: ["account": "work", "generation": 7], result: ["refreshed": true, "generation": 8]),
    "token.exchange": MethodExample(
      params: ["account": "work", "audience": ["reports"], "scopes": ["reports.read"]],
      result: [
        "access_token": "eyJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJyZXBvcnRzIn0.c2ln",
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "token_type": "Bearer",
        "expires_at": 1_767_225_900, "expires_in": 300, "scope": ["reports.read"],
      ]),
    "token.introspect": MethodExample(
      params: ["account": "work"],
      result: [
        "active": true,
        "claims": ["active": true, "exp": 1_767_229_199, "scope": "openid email", "sub": "110169484474386276334"],
      ]),
    "dpop.proof": MethodExample(
      params: ["account": "work", "method": "GET", "url": "https://api.example.com/me"],
      result: [
        "proof": "eyJ0eXAiOiJkcG9wK2p3dCJ9.eyJodG0iOiJHRVQifQ.c2ln",
        "thumbprint": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I",
      ]),
    "request.send": MethodExample(
      params: ["account": "work", "method": "GET", "url": "/me", "headers": ["Accept": "application/json"]],
      result: [
        "status": 200, "headers": ["content-type": "application/json"], "body": "{\"name\":\"Ada Lovelace\"}",
      ]),
    "account.sessions": MethodExample(
      params: ["account": "cameras"],
      result: [
        "sessions": [
          [
            "session_id": "17", "user_agent": "Firefox", "client": "web", "ip": "192.0.2.7", "online": true,
            "current": false,
          ]
        ]
      ]),
    "account.end_session": MethodExample(
      params: ["account": "cameras", "session_id": "17"], result: ["ended": true]),
    "policy.explain": MethodExample(
      params: ["account": "work", "caller": ["uid": 990, "unit": "mail-sync.service"]],
      result: ["allowed": true, "rule": "mail", "why": "rule mail allows it"]),
    "release.list": MethodExample(
      params: .null,
      result: [
        "waiting": [
          [
            "id": "k7f3qx", "account": "bank", "method": "token.get",
            "caller": ["uid": 1000, "pid": 4711, "unit": "user@1000.service", "exe": "/usr/bin/feed"],
            "rule": "ask-me", "since": 1_767_225_600, "until": 1_767_225_660,
          ]
        ], "standing": [],
      ]),
    "release.approve": MethodExample(params: ["id": "k7f3qx", "for": 600], result: ["approved": true]),
    "release.deny": MethodExample(params: ["id": "k7f3qx"], result: ["denied": true]),
    "account.list": MethodExample(params: ["provider": "google"], result: ["accounts": [account]]),
    "account.get": MethodExample(params: ["account": "work"], result: account),
    "account.logout": MethodExample(
      params: ["account": "work"],
      result: [
        "steps": [
          ["step": "revoke_refresh_token", "result": "done"],
          ["step": "revoke_access_token", "result": "queued", "message": "the provider answered 503"],
          ["step": "forget", "result": "done"],
        ]
      ]),
    "account.userinfo": MethodExample(
      params: ["account": "work"],
      result: [
        "claims": [
          "email": "ada@example.com", "email_verified": true, "name": "Ada Lovelace", "sub": "110169484474386276334",
        ]
      ]),
    "account.import": MethodExample(
      params: ["account": "work", "provider": "google", "refresh_token": "1//0gXk", "scopes": ["openid", "email"]],
      result: account),
    "login.password": MethodExample(
      params: ["provider": "relic", "account": "work", "username": "jane", "password": "open sesame"],
      result: account),
    "login.start": MethodExample(
      params: ["provider": "google", "account": "work", "scopes": ["openid", "email"]],
      result: [
        "login_id": "Zk3vS0JvVbq2", "account": "work", "expires_at": 1_767_226_200,
        "destinations": [
          [
            "kind": "browser", "url": "https://accounts.google.com/o/oauth2/v2/auth?state=Xy1",
            "redirect_uri": "http://127.0.0.1:4180/callback",
          ]
        ],
        "warnings": [],
      ]),
    "login.wait": MethodExample(
      params: ["login_id": "Zk3vS0JvVbq2", "timeout": 60],
      result: ["login_id": "Zk3vS0JvVbq2", "state": "completed", "account": account]),
    "login.continue": MethodExample(
      params: ["login_id": "Zk3vS0JvVbq2", "session_id": "17"],
      result: ["login_id": "Zk3vS0JvVbq2", "state": "completed", "account": account]),
    "login.handle_callback": MethodExample(
      params: ["url": "http://127.0.0.1:4180/callback?code=4%2F0AX4&state=Xy1"],
      result: ["handled": true, "login_id": "Zk3vS0JvVbq2"]),
    "login.cancel": MethodExample(params: ["login_id": "Zk3vS0JvVbq2"], result: ["cancelled": true]),
    "login.list": MethodExample(
      params: .null,
      result: [
        "logins": [
          [
            "login_id": "Zk3vS0JvVbq2", "provider": "google", "account": "work", "state": "pending",
            "started_at": 1_767_225_600, "expires_at": 1_767_226_200,
          ]
        ]
      ]),
    "provider.list": MethodExample(params: .null, result: ["providers": [provider]]),
    "provider.get": MethodExample(
      params: ["provider": "google"],
      result: [
        "provider": provider, "redirect_uri": "http://127.0.0.1:4180/callback",
        "endpoints": [
          "authorization": "https://accounts.google.com/o/oauth2/v2/auth",
          "token": "https://oauth2.googleapis.com/token",
        ],
        "supports": [
          "id_token": true, "pkce": true, "refresh": true, "revocation": true, "sessions": false, "userinfo": true,
        ],
        "metadata_fetched_at": 1_767_225_600,
      ]),
    "provider.check": MethodExample(
      params: ["provider": "google", "timeout": 20],
      result: [
        "provider": "google", "ok": false, "checked_at": 1_767_225_600,
        "checks": [
          ["name": "issuer", "result": "ok", "message": "https://accounts.google.com"],
          [
            "name": "clock", "result": "failed",
            "message": "this machine's clock is 312 s ahead of the provider's",
            "hint": "Set it right: `timedatectl` shows whether it is synchronized.",
          ],
          [
            "name": "refresh_token", "account": "work", "result": "ok",
            "message": "12 days old; the provider names no end of it",
          ],
        ],
      ]),
    "provider.register": MethodExample(
      params: ["issuer": "https://login.example.com", "provider": "example"],
      result: [
        "provider": "example", "client_id": "s6BhdRkqt3", "issuer": "https://login.example.com",
        "warnings": ["the client's registration ends in 30 days"],
      ]),
    "provider.unregister": MethodExample(
      params: ["provider": "example"],
      result: ["steps": [["step": "delete_registration", "result": "done"], ["step": "forget", "result": "done"]]]),
    "events.subscribe": MethodExample(
      params: ["events": ["token.refreshed", "login.required"]],
      result: ["subscribed": ["token.refreshed", "login.required"]]),
    "audit.list": MethodExample(
      params: ["account": "work", "limit": 1],
      result: [
        "records": [
          [
            "id": 4711, "first": 1_767_225_600, "last": 1_767_229_020, "count": 58, "action": "release",
            "method": "token.get", "account": "work", "provider": "google", "uid": 998, "pid": 2041,
            "unit": "mail-sync.service", "scopes": ["https://mail.google.com/"], "generation": 7, "rule": "mail",
            "result": "ok",
          ]
        ], "next": 4711,
      ]),
    "broker.status": MethodExample(
      params: .null,
      result: [
        "version": .string(OpenRPC.contractVersion), "instance": "system", "pid": 812, "state": "running",
        "started_at": 1_767_225_600, "summary": "12 ok, 1 needs login", "accounts": ["login_required": 1, "ok": 12],
        "providers": 3, "pending_logins": 0, "callback": ["http://127.0.0.1:4180", "http://[::1]:4180"],
        "store": ["path": "/var/lib/grantd/grantd.db", "state": "ok"],
        "configuration": ["path": "/etc/grantd/grantd.toml", "loaded_at": 1_767_225_600],
        "provider_conditions": [
          [
            "provider": "example", "condition": "unreachable", "since": 1_767_225_000, "retry_at": 1_767_225_660,
            "skew_seconds": 0, "last_error": "no connection to login.example.com: connection refused",
          ]
        ],
        "refresh_tokens_ending": 1,
        "caller": ["uid": 1000, "access": ["observe": ["*"], "use": ["work", "mail-*"]]],
      ]),
    "broker.reload": MethodExample(params: .null, result: ["providers": 3, "warnings": []]),
    "broker.metrics": MethodExample(
      params: .null,
      result: [
        "text": "# TYPE grantd_store_ok gauge\ngrantd_store_ok 1\n# EOF\n",
        "content_type": "application/openmetrics-text; version=1.0.0; charset=utf-8",
      ]),
    "store.rotate_key": MethodExample(
      params: .null,
      result: ["key_file": "/var/lib/grantd/grantd.key", "accounts": 13, "seconds": .number("0.021"), "warnings": []]),
    "store.backup": MethodExample(
      params: ["passphrase": "correct horse battery staple"],
      result: ["backup_id": "uJp0VvRGIOgbXk2GdWuPzA", "size": 74_210, "accounts": 13]),
    "store.backup_part": MethodExample(
      params: ["backup_id": "uJp0VvRGIOgbXk2GdWuPzA", "offset": 0], result: ["data": "Z3JhbnRkLWJhY2t1cAo="]),
    "store.restore": MethodExample(params: ["size": 74_210], result: ["restore_id": "m1Qk0LSbQm7Rz0h3YpXHQw"]),
    "store.restore_part": MethodExample(
      params: ["restore_id": "m1Qk0LSbQm7Rz0h3YpXHQw", "offset": 0, "data": "Z3JhbnRkLWJhY2t1cAo="],
      result: ["received": 14]),
    "store.restore_look": MethodExample(
      params: ["restore_id": "m1Qk0LSbQm7Rz0h3YpXHQw", "passphrase": "correct horse battery staple"],
      result: [
        "host": "old.example", "made_at": 1_767_225_600, "version": .string(OpenRPC.contractVersion), "accounts": 13,
        "known": 1,
      ]),
    "store.restore_apply": MethodExample(
      params: ["restore_id": "m1Qk0LSbQm7Rz0h3YpXHQw", "moved": true],
      result: [
        "restored": ["work", "private"], "replaced": [], "kept": ["cameras"],
        "left_out": [["account": "robot", "why": "the configuration declares such accounts"]], "warnings": [],
      ]),
    "rpc.discover": MethodExample(
      params: .null, result: ["openrpc": .string(OpenRPC.specification), "info": OpenRPC.info(), "methods": []]),
  ]

  private static let account: JSON = [
    "account": "work", "provider": "google", "state": "ok",
    "identity": [
      "subject": "110169484474386276334", "issuer": "https://accounts.google.com", "email": "ada@example.com",
    ],
    "scopes": ["openid", "email"], "generation": 7, "expires_at": 1_767_229_199, "next_refresh_at": 1_767_228_599,
    "last_refresh_at": 1_767_225_599, "logged_in_at": 1_766_000_000,
  ]

  private static let provider: JSON = [
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
