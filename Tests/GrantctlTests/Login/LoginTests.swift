import BrokerAPI
import TestSupport
import Testing

@testable import grantctl

@Suite struct LoginTests {
  static let url = "https://provider.example/authorize?state=s1"
  static let callback = "http://127.0.0.1:4180/callback?code=c&state=s1"

  static func started(_ kinds: String..., warnings: [JSON] = []) -> JSON {
    let places = kinds.map {
      JSON.object([.init(name: "kind", value: .string($0)), .init(name: "url", value: .string(url))])
    }
    return [
      "login_id": "L1", "account": "work", "expires_at": .integer(Recorder.now + 600), "destinations": .array(places),
      "warnings": .array(warnings),
    ]
  }

  static let completed: JSON = [
    "login_id": "L1", "state": "completed", "account": JSON(encoding: TableTests.account("work", .ok)),
  ]

  @Test("a login prints the address, waits, and says who signed in") func aLoginPrintsTheAddressWaitsAnd() async throws
  {
    let gate = Gate()
    try await ScriptedBroker.with([
      "login.start": answer(Self.started("browser", "manual", warnings: ["scope x is\u{1B} unknown"])),
      "login.wait": { _, _ in
        await gate.wait()
        return .success(Self.completed)
      },
    ]) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(
        ["login", "google", "work", "--no-browser", "--scope", "a b", "--scope", "c", "--param", "k=v=w"], recorder,
        environment: ["DISPLAY": ":0"])
      #expect(await eventually { recorder.out == Self.url + "\n" && broker.methods.contains("login.wait") })
      gate.open()
      #expect(try await status == .success)
      #expect(
        recorder.out == """
          \(Self.url)
          Signed in to work as ada@example.com at google
          Get a token with: grantctl token work

          """)
      #expect(
        recorder.err == """
          warning: scope x is\\u{1B} unknown
          To sign in at google, open this URL in a browser:
          Waiting for you to sign in (10 min left; Ctrl-C cancels)

          """)
      #expect(recorder.launched.isEmpty)
      #expect(
        broker.params(of: "login.start")
          == [
            "provider": "google", "account": "work", "scopes": ["a", "b", "c"], "params": ["k": "v=w"], "join": true,
          ])
    }
  }

  @Test("another user's login is waited for no longer than --timeout says") func waitsForItsTurn() async throws {
    let error = RPCError(.loginInProgress, "a login of another user is under way", hint: "Wait.", retryAfter: 1)
    try await ScriptedBroker.with(["login.start": refuse(error)]) { broker, _ async throws in
      let (recorder, seconds) = (Recorder(), Counter())
      let status = try await broker.run(["login", "google", "--timeout", "2"], recorder) {
        $0.canAsk = true
        $0.now = { Recorder.now + Int64(seconds.next()) }
      }
      #expect(status == .failure)
      #expect(recorder.err.contains("Waiting for it"))
      #expect(broker.methods.count <= 2)
    }
  }

  @Test("the browser opens with the address as an argument, and pending is asked again")
  func theBrowserOpensWithTheAddressAs() async throws {
    let rounds = Counter()
    try await ScriptedBroker.with([
      "login.start": answer(Self.started("browser", "manual")),
      "login.wait": { _, _ in
        .success(rounds.next() < 3 ? ["login_id": "L1", "state": "pending"] : Self.completed)
      },
    ]) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["login", "google", "--json"], recorder, environment: ["DISPLAY": ":0"])
      #expect(status == .success)
      #expect(broker.methods == ["login.start", "login.wait", "login.wait", "login.wait"])
      #expect(broker.params(of: "login.wait") == ["login_id": "L1", "timeout": 60])
      #expect(recorder.launched == [["/usr/bin/xdg-open", Self.url]])
      #expect(try JSON.parse(Array(recorder.out.utf8)) == Self.completed)
    }
  }

  @Test("a pasted address completes the login, and a wrong one may be followed by another")
  func aPastedAddressCompletesTheLoginAnd() async throws {
    let gate = Gate()
    try await ScriptedBroker.with([
      "login.start": answer(Self.started("manual")),
      "login.wait": { _, _ in
        await gate.wait()
        return .success(Self.completed)
      },
      "login.handle_callback": { params, _ in
        switch params["url"]?.string {
        case "http://foreign/": return .success(["handled": false])
        case Self.callback:
          gate.open()
          return .success(["handled": true, "login_id": "L1"])
        default: return .failure(RPCError(.invalidCallback, "no state in it"))
        }
      },
    ]) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "google", "work", "--manual"], recorder)
      for line in ["", "rubbish", "http://foreign/", "  \(Self.callback) \r"] { recorder.type(line) }
      #expect(try await status == .success)
      #expect(broker.params(of: "login.start")?["destinations"] == ["manual"])
      #expect(recorder.err.contains("That URL was refused: no state in it\n"))
      #expect(recorder.err.contains("That URL does not match a pending login."))
      #expect(!recorder.err.contains("code=c") && recorder.out.contains("Signed in to work"))
    }
  }

  @Test("an address that is piped in completes the login, though the input ends there")
  func anAddressThatIsPipedIn() async throws {
    let gate = Gate()
    try await ScriptedBroker.with([
      "login.start": answer(Self.started("manual")),
      "login.wait": { _, _ in
        await gate.wait()
        return .success(Self.completed)
      },
      "login.handle_callback": answer(["handled": true, "login_id": "L1"]),
      "login.cancel": { _, _ in
        gate.open()
        return .success(["cancelled": true])
      },
    ]) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "google", "work", "--manual"], recorder)
      recorder.type(Self.callback)
      recorder.endInput()
      #expect(await eventually { broker.methods.contains("login.handle_callback") })
      gate.open()
      #expect(try await status == .success)
      #expect(!broker.methods.contains("login.cancel"))
    }
  }

  @Test("Ctrl-C and the end of the input cancel the login", arguments: [true, false])
  func ctrlCAndTheEndOfThe(byInterrupt: Bool) async throws {
    let gate = Gate()
    try await ScriptedBroker.with([
      "login.start": answer(Self.started("manual")),
      "login.wait": { _, _ in
        await gate.wait()
        return .failure(RPCError(.loginCancelled, "cancelled"))
      },
      "login.cancel": answer(["cancelled": true]),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "google", "work", "--manual"], recorder)
      #expect(await eventually { broker.methods.contains("login.wait") })
      if byInterrupt { recorder.interrupt() } else { recorder.endInput() }
      #expect(try await status == (byInterrupt ? .interrupted : .loginFailed))
      #expect(broker.params(of: "login.cancel") == ["login_id": "L1"])
      gate.open()
    }
  }

  @Test("a user who does not answer in time ends the login") func aPersonWhoDoesNotComeIn() async throws {
    let gate = Gate()
    try await ScriptedBroker.with([
      "login.start": answer(Self.started("browser")),
      "login.wait": { _, _ in
        await gate.wait()
        return .success(Self.completed)
      },
      "login.cancel": answer(["cancelled": true]),
    ]) { broker, _ async throws in
      #expect(try await broker.run(["login", "google", "--timeout", "2"], Recorder()) == .loginFailed)
      #expect(broker.methods.contains("login.cancel"))
      gate.open()
    }
  }

  @Test("a denied login shows the provider's message") func aDeniedLoginSaysWhatTheProvider() async throws {
    let denied = RPCError(
      .loginDenied, "the login was refused", oauth: .init(error: "access_denied", error_description: "No."))
    try await ScriptedBroker.with([
      "login.start": answer(Self.started("browser")), "login.wait": refuse(denied),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "google", "work"], recorder) == .loginFailed)
      #expect(
        recorder.err.hasSuffix(
          """
          grantctl: the login was refused
            The provider said: access_denied: No.
            Start again with `grantctl login` and allow the access asked for.

          """))
    }
  }

  @Test("logins that wait are listed and cancelled") func loginsThatWaitAreListedAndCancelled() async throws {
    let login: JSON = [
      "login_id": "L1", "provider": "google", "account": "work", "state": "pending",
      "started_at": .integer(Recorder.now - 60), "expires_at": .integer(Recorder.now + 540),
    ]
    let waiting: JSON = [
      "login_id": "L2", "provider": "vms", "account": "vms", "state": "action_required",
      "started_at": .integer(Recorder.now), "expires_at": .integer(Recorder.now + 60),
    ]
    try await ScriptedBroker.with([
      "login.list": answer(["logins": [login, waiting]]), "login.cancel": answer(["cancelled": false]),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "list"], recorder) == .success)
      #expect(try await broker.run(["login", "cancel", "L1"], recorder) == .success)
      #expect(
        recorder.out == """
          ID  ACCOUNT  PROVIDER  STARTED    ENDS IN
          L1  work     google    1 min ago  9 min
          L2  vms      vms       just now   1 min
              Further input required: grantctl login continue L2
          It had ended already.

          """)
    }
  }
}
