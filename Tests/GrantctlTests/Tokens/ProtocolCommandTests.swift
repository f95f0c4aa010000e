import BrokerAPI
import Testing

@testable import grantctl

@Suite struct ProtocolCommandTests {
  static func exchanged(type: String = "Bearer", token: String = "exchanged-token") -> JSON {
    [
      "access_token": .string(token), "issued_token_type": "urn:ietf:params:oauth:token-type:jwt",
      "token_type": .string(type), "expires_in": 300,
    ]
  }

  @Test("an exchanged token is all that goes to standard output") func exchange() async throws {
    try await ScriptedBroker.with(["token.exchange": answer(Self.exchanged())]) { broker, _ async throws in
      let (bare, header, json) = (Recorder(), Recorder(), Recorder())
      let arguments = [
        "exchange", "work", "--audience", "a", "--audience", "b", "--resource", "urn:r", "--scope", "x y",
        "--requested-token-type", "jwt", "--actor", "robot", "--timeout", "7",
      ]
      #expect(try await broker.run(arguments, bare) == .success)
      #expect(bare.out == "exchanged-token\n" && bare.err.isEmpty)
      #expect(
        broker.params(of: "token.exchange") == [
          "account": "work", "audience": ["a", "b"], "resource": ["urn:r"], "scopes": ["x", "y"],
          "requested_token_type": "urn:ietf:params:oauth:token-type:jwt", "actor": "robot", "timeout": 7,
        ])
      #expect(try await broker.run(["exchange", "work", "--as-header"], header) == .success)
      #expect(header.out == "Authorization: Bearer exchanged-token\n")
      #expect(broker.params(of: "token.exchange") == ["account": "work"])
      #expect(
        try await broker.run(["exchange", "work", "--requested-token-type", "urn:x", "--json"], json) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == Self.exchanged())
      #expect(broker.params(of: "token.exchange")?["requested_token_type"] == "urn:x")
    }
  }

  @Test("an answer that waits for people is waited for as long as they have, those of both accounts")
  func patience() {
    // The longest time that a rule gives a user, and the broker's own time for an answer.
    let (person, answer) = (Duration.seconds(300), Timeouts.standard)
    #expect(Shell.standardTimeout(of: BrokerStatus.name, nil) == Shell.patience)
    #expect(Shell.standardTimeout(of: TokenGet.name, ["account": "work"]) >= person + answer)
    #expect(Shell.standardTimeout(of: TokenExchange.name, ["account": "work"]) == Shell.patienceForRelease)
    let acting: JSON = ["account": "work", "actor": "robot"]
    #expect(Shell.standardTimeout(of: TokenExchange.name, acting) >= person * 2 + answer)
  }

  @Test("another token type has no header field, and line ends are not printed")
  func noHeader() async throws {
    for (reply, options) in [(Self.exchanged(type: "N_A"), ["--as-header"]), (Self.exchanged(token: "a\nb"), [])] {
      try await ScriptedBroker.with(["token.exchange": answer(reply)]) { broker, _ async throws in
        let recorder = Recorder()
        #expect(try await broker.run(["exchange", "work"] + options, recorder) == .failure)
        #expect(recorder.out.isEmpty && !recorder.err.contains("exchanged-token"))
      }
    }
  }

  @Test("the provider's data about the token are printed by name, times as dates") func introspect() async throws {
    let result: JSON = [
      "active": true,
      "claims": [
        "active": true, "scope": "openid\u{1B} email", "exp": .number("\(Recorder.now + 60).25"), "aud": ["a", "b"],
        "cnf": ["jkt": "x"], "iat": .number("1e300"), "nbf": -1, "empty": .null,
      ],
    ]
    try await ScriptedBroker.with(["token.introspect": answer(result)]) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      #expect(try await broker.run(["introspect", "work", "--timeout", "5"], plain) == .success)
      #expect(broker.params(of: "token.introspect") == ["account": "work", "timeout": 5])
      #expect(
        plain.out == """
          active  yes
          aud     a b
          cnf     {"jkt":"x"}
          exp     2026-01-01 00:01:00
          iat     1e300
          nbf     -1
          scope   openid\\u{1B} email

          """)
      #expect(try await broker.run(["introspect", "work", "--json"], json) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == result)
    }
    try await ScriptedBroker.with(["token.introspect": answer(["active": false, "claims": ["active": false]])]) {
      broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["introspect", "work"], recorder) == .success)
      #expect(recorder.out == "active  no\n")
    }
  }

  @Test("the provider's data about the user are printed by name") func userinfo() async throws {
    let result: JSON = ["claims": ["sub": "1", "email_verified": true, "name": "Ada", "updated_at": 0]]
    try await ScriptedBroker.with(["account.userinfo": answer(result)]) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      #expect(try await broker.run(["userinfo", "work"], plain) == .success)
      #expect(
        plain.out == """
          email_verified  yes
          name            Ada
          sub             1
          updated_at      1970-01-01 00:00:00

          """)
      #expect(try await broker.run(["--json", "userinfo", "work"], json) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == result)
    }
    let error = RPCError(.unsupportedByProvider, "google has no UserInfo endpoint")
    try await ScriptedBroker.with(["account.userinfo": refuse(error)]) { broker, _ async throws in
      #expect(try await broker.run(["userinfo", "work"], Recorder()) == .failure)
    }
  }

  @Test("a proof is all that goes to standard output") func proof() async throws {
    let url = "https://api.example.com/me?x=1"
    try await ScriptedBroker.with(["dpop.proof": answer(["proof": "h.p.s", "thumbprint": "t"])]) {
      broker, _ async throws in
      let (bare, header) = (Recorder(), Recorder())
      #expect(try await broker.run(["proof", "work", "POST", url, "--nonce", "n"], bare) == .success)
      #expect(bare.out == "h.p.s\n" && bare.err.isEmpty)
      #expect(
        broker.params(of: "dpop.proof") == ["account": "work", "method": "POST", "url": .string(url), "nonce": "n"])
      header.type("narrowed-token")
      header.endInput()
      let arguments = ["proof", "work", "GET", url, "--as-header", "--access-token-file", "-"]
      #expect(try await broker.run(arguments, header) == .success)
      #expect(header.out == "DPoP: h.p.s\n")
      #expect(broker.params(of: "dpop.proof")?["access_token"] == "narrowed-token")
    }
  }

  @Test("a provider is registered from an issuer's address") func register() async throws {
    let result: JSON = [
      "provider": "example", "client_id": "s6B", "issuer": "https://login.example.com",
      "warnings": ["it ends\u{1B} soon"],
    ]
    try await ScriptedBroker.with(["provider.register": answer(result)]) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      let arguments = ["provider", "register", "https://login.example.com"]
      #expect(try await broker.run(arguments, plain) == .success)
      #expect(broker.params(of: "provider.register") == ["issuer": "https://login.example.com"])
      #expect(
        plain.out == """
          Provider  example
          Issuer    https://login.example.com
          Client    s6B
          Sign in with: grantctl login example

          """)
      #expect(plain.err == "warning: it ends\\u{1B} soon\n")
      #expect(try await broker.run(["--json"] + arguments, json) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == result && json.err.isEmpty)
    }
  }

  @Test("the issuer's token comes from a file or from standard input", arguments: ["/t", "-", "/open", "/none"])
  func initialAccessToken(path: String) async throws {
    let result: JSON = ["provider": "e", "client_id": "c", "issuer": "https://a", "warnings": []]
    try await ScriptedBroker.with(["provider.register": answer(result)]) { broker, _ async throws in
      let recorder = Recorder()
      recorder.type("iat-secret")
      recorder.endInput()
      let arguments = [
        "provider", "register", "https://a", "--name", "e", "--scope", "a b", "--redirect-uri", "http://127.0.0.1/c",
        "--initial-access-token-file", path,
      ]
      let status = try await broker.run(arguments, recorder) {
        $0.files.text = { path in
          path == "/none" ? .unreadable("No such file") : .text("iat-secret\n", isOpenToOthers: path == "/open")
        }
      }
      #expect(!recorder.err.contains("iat-secret") && !recorder.out.contains("iat-secret"))
      guard path != "/none" else {
        #expect(status == .usage && broker.methods.isEmpty)
        #expect(
          recorder.err == """
            grantctl: the initial access token cannot be read from /none: No such file
              Give the path of a file with the initial access token, or “-” for standard input.

            """)
        return
      }
      guard path != "/open" else {
        #expect(status == .usage && broker.methods.isEmpty)
        #expect(recorder.err.hasPrefix("grantctl: every user of this machine can read /open\n"))
        #expect(recorder.err.contains("`chmod 600 /open`"))
        return
      }
      #expect(status == .success)
      #expect(
        broker.params(of: "provider.register") == [
          "issuer": "https://a", "provider": "e", "initial_access_token": "iat-secret", "scopes": ["a", "b"],
          "redirect_uri": "http://127.0.0.1/c",
        ])
      #expect(recorder.err.isEmpty)
    }
  }

  @Test("a refused registration says which fields were wrong") func rejected() async throws {
    let error = RPCError(
      .registrationRejected, "the issuer refused the registration", hint: "Mend it.",
      oauth: .init(error: "invalid_redirect_uri"), detail: "redirect_uris: no loopback")
    try await ScriptedBroker.with(["provider.register": refuse(error)]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["provider", "register", "https://a"], recorder) == .failure)
      #expect(
        recorder.err == """
          grantctl: the issuer refused the registration
            redirect_uris: no loopback
            The provider said: invalid_redirect_uri
            Mend it.

          """)
    }
  }

  @Test("the end of a registration reports the result of each step") func unregister() async throws {
    let steps: JSON = [
      ["step": "delete_registration", "result": "unsupported"], ["step": "forget", "result": "done"],
      ["step": "of_a_newer_one", "result": "refused", "message": "no"],
    ]
    try await ScriptedBroker.with(["provider.unregister": answer(["steps": steps])]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["provider", "unregister", "example"], recorder) == .success)
      #expect(broker.params(of: "provider.unregister") == ["provider": "example"])
      #expect(
        recorder.out == """
          Delete the registration  the provider cannot do that
          Forget the provider      done
          of_a_newer_one           refused: no
          Forgotten: example

          """)
    }
  }

  @Test("a logout can end the session at the provider, in the browser where that is wanted")
  func endSession() async throws {
    let url = "https://login.example.com/logout?id_token_hint=h"
    let steps: JSON = [
      ["step": "end_session", "result": "opened", "message": "open the URL"], ["step": "forget", "result": "done"],
    ]
    let result: JSON = ["steps": steps, "end_session_url": .string(url)]
    try await ScriptedBroker.with(["account.logout": answer(result)]) { broker, _ async throws in
      let (printed, opened, json) = (Recorder(), Recorder(), Recorder())
      let display = ["DISPLAY": ":0"]
      #expect(try await broker.run(["logout", "work", "--end-session"], printed, environment: display) == .success)
      #expect(broker.params(of: "account.logout") == ["account": "work", "end_session": true])
      let words = "End the session     in the browser: open the URL\nForget the account  done\nSigned out: work\n"
      #expect(printed.out == words + "\(url)\n" && printed.launched.isEmpty)
      #expect(printed.err == "To end the session at the provider, open this URL in a browser:\n")
      let arguments = ["logout", "work", "--end-session", "--open"]
      #expect(try await broker.run(arguments, opened, environment: display) == .success)
      #expect(opened.launched == [["/usr/bin/xdg-open", url]])
      #expect(opened.err.contains("Your browser opens to end the session at the provider."))
      #expect(
        try await broker.run(["logout", "work", "--end-session", "--json"], json, environment: display) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == result && json.err.isEmpty && json.launched.isEmpty)
    }
  }

  @Test("an account shows its kind, its tokens' binding, and its narrowed tokens") func shown() {
    var account = TableTests.account("work", .ok)
    (account.grant, account.token_binding) = ("device_code", "dpop")
    account.tokens = [
      .init(scopes: ["read", "write"], resource: "https://api.example.com", expires_at: Recorder.now + 60),
      .init(scopes: ["read"]),
    ]
    let lines = ShowCommand.fields(account, Shell(terminal: Recorder().terminal(), settings: .init()))
      .lines(colour: false)
    for line in [
      "Grant         device code",
      "Bound to      a key of the broker's (DPoP): requests need a proof too, by grantctl proof",
      "Narrowed to   read write at https://api.example.com, expires 2026-01-01 00:01:00 (in 1 min)",
      "Narrowed to   read",
    ] { #expect(lines.contains(line)) }
  }
}
