import ArgumentParser
import BrokerAPI
import BrokerSocket
import Glibc
import Principals
import TestSupport
import Testing
import UnixSocket

@testable import grantctl

@Suite struct CommandTests {
  static let token: JSON = [
    "access_token": "ya29.abc-_~", "token_type": "Bearer", "expires_in": 3599, "scope": ["openid"], "account": "work",
    "provider": "google", "generation": 7,
  ]

  @Test("a token is all that goes to standard output") func aTokenIsAllThatGoesTo() async throws {
    try await ScriptedBroker.with(["token.get": answer(Self.token)]) { broker, _ async throws in
      let recorder = Recorder()
      let arguments = [
        "token", "work", "--min-ttl", "120", "--scope", "openid", "--resource", "urn:r", "--timeout", "7",
      ]
      #expect(try await broker.run(arguments, recorder) == .success)
      #expect(recorder.out == "ya29.abc-_~\n" && recorder.err.isEmpty)
      #expect(
        broker.params(of: "token.get")
          == ["account": "work", "scopes": ["openid"], "resource": "urn:r", "min_ttl": 120, "timeout": 7])
    }
  }

  @Test("a token comes as a header field or as JSON too") func aTokenComesAsAHeaderField() async throws {
    try await ScriptedBroker.with(["token.get": answer(Self.token)]) { broker, _ async throws in
      let (header, json) = (Recorder(), Recorder())
      #expect(try await broker.run(["token", "work", "--as-header"], header) == .success)
      #expect(header.out == "Authorization: Bearer ya29.abc-_~\n")
      #expect(try await broker.run(["--json", "token", "work"], json) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == Self.token)
    }
  }

  @Test("a token that could end a line early is not printed", arguments: ["", "a\nX-Injected: 1", "a\u{1B}b", "ä"])
  func aTokenThatCouldEndALine(token: String) async throws {
    var members = Self.token.members ?? []
    members[0].value = .string(token)
    let reply = JSON.object(members)
    try await ScriptedBroker.with(["token.get": answer(reply)]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["token", "work"], recorder) == .failure)
      #expect(recorder.out.isEmpty)
    }
  }

  @Test("an error that requires a login has the exact command") func whereALoginIsNeededTheError() async throws {
    let error = RPCError(
      .loginRequired, "account mail needs a login: the provider ended the grant",
      hint: "Sign in again with `grantctl login google mail`.", oauth: .init(error: "invalid_grant"))
    try await ScriptedBroker.with(["token.get": refuse(error)]) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      #expect(try await broker.run(["token", "mail", "--socket", broker.path], plain) == .loginRequired)
      #expect(
        plain.err == """
          grantctl: account mail needs a login: the provider ended the grant
            The provider said: invalid_grant
            Sign in again with `grantctl login google mail --socket \(broker.path)`.

          """)
      #expect(try await broker.run(["token", "mail", "--json"], json) == .loginRequired)
      #expect(json.out.isEmpty)
      #expect(try JSON.parse(Array(json.err.utf8)) == ["error": error.json])
    }
  }

  @Test("a daemon that does not run is told from one that does not let us in") func aDaemonThatDoesNotRunIs()
    async throws
  {
    let recorder = Recorder()
    #expect(
      try await perform(["list", "--json"], recorder, environment: ["GRANTD_SOCKET": "/nowhere/s"]) == .notRunning)
    let error = try JSON.parse(Array(recorder.err.utf8))["error"]
    #expect(error?["data"]?["reason"] == "not_running")
    try await ScriptedBroker.with(["account.list": refuse(RPCError(.notPermitted, "no"))]) { broker, _ async throws in
      #expect(try await broker.run(["list"], Recorder()) == .notPermitted)
    }
  }

  @Test("status shows the broker, then the accounts and what to do") func statusShowsTheBrokerThenTheAccounts()
    async throws
  {
    let status: JSON = [
      "version": "0.1.0", "instance": "user", "pid": 812, "state": "running",
      "started_at": .integer(Recorder.now - 10_800), "summary": "1 ok, 1 needs login", "accounts": ["ok": 1],
      "providers": 3, "pending_logins": 1, "callback": ["127.0.0.1:4180"],
      "store": [
        "path": "/s/grantd.db", "state": "failing", "message": "no space left", "hint": "Make room: `grantctl status`.",
        "since": .integer(Recorder.now - 120), "held_back": 1,
      ],
      "configuration": ["loaded_at": .integer(Recorder.now - 60)],
      "provider_conditions": [
        ["provider": "google", "condition": "ok", "skew_seconds": .number("4.2")],
        [
          "provider": "demo", "condition": "unreachable", "since": .integer(Recorder.now - 180),
          "retry_at": .integer(Recorder.now + 40), "skew_seconds": .number("-312.5"),
          "last_error": "connection\u{1B} refused",
        ],
        ["provider": "work", "condition": "suspended", "skew_seconds": .number("9.5"), "last_error": "invalid_client"],
        ["provider": "next", "condition": "recovering"], ["provider": "later", "condition": "of a newer one"],
      ],
    ]
    var ending = TableTests.account("work", .ok)
    ending.refresh_expires_at = Recorder.now + 300_000
    ending.refresh_expires_soon = true
    ending.refresh_expiry_learned = true
    let accounts = [
      ending, TableTests.account("mail", .degraded, expires: -5, error: TableTests.refused),
      TableTests.account("home", .degraded, provider: "demo", error: TableTests.refused),
    ]
    try await ScriptedBroker.with([
      "broker.status": answer(status), "account.list": answer(["accounts": JSON(encoding: accounts)]),
    ]) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      #expect(try await broker.run(["status"], plain) == .success)
      #expect(
        plain.out == """
          grantd 0.1.0, user instance, pid 812, running for 3 h: 1 ok, 1 needs login
            store          /s/grantd.db, failing: no space left
            callback       127.0.0.1:4180
            configuration  built-in defaults, read 1 min ago
            providers      3
            logins         1 pending: grantctl login list

          ACCOUNT  PROVIDER  STATE     EXPIRES IN       NEXT REFRESH
          home     demo      degraded  59 min           in 49 min
              provider demo is unreachable: see below
          mail     google    degraded  expired 5 s ago  in 49 min
              account a-rather-long-account-name needs a login: the provider ended the
              grant \\u{1B}[2Jand more (3 min ago)
              Sign in again with `grantctl login google a-rather-long-account-name`.
          work     google    ok        59 min           in 49 min

          provider demo: unreachable for 3 min, asked again in 40 s
              connection\\u{1B} refused
              More: `grantctl doctor demo`
          provider work: refuses this client
              invalid_client
              More: `grantctl doctor work`
          provider next: answers again; refreshes begin one after the other
          provider later: of a newer one
          clock: this machine's is 5 min behind that of provider demo (and 1 other's)
              Check timedatectl: is it synchronized? ID tokens are refused where the
              clocks are far apart.
          store: failing for 2 min; 1 refresh is held back
              no space left
              Make room: `grantctl status`.
          account work: its login ends in 3 days, as earlier ones did
              `grantctl login google work`

          """)
      #expect(try await broker.run(["status", "--json"], json) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == status)
    }
  }

  @Test("a refresh asks for a new token, and says the new expiry") func refresh() async throws {
    try await ScriptedBroker.with([
      "account.get": answer(JSON(encoding: TableTests.account("work", .ok))),
      "account.refresh": answer(["refreshed": true, "generation": 8]),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["refresh", "work"], recorder) == .success)
      #expect(broker.params(of: "account.refresh") == ["account": "work"])
      #expect(recorder.out == "Refreshed: work, expires in 59 min (2026-01-01 00:59:59)\n")
    }
  }

  @Test("for a token that cannot be refreshed, the next step is a sign-in at the same broker")
  func notRenewable() async throws {
    var account = TableTests.account("work", .ok)
    account.renewable = false
    try await ScriptedBroker.with(["account.get": answer(JSON(encoding: account))]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["refresh", "work", "--socket", broker.path], recorder) == .failure)
      let command = "grantctl login google work --socket \(broker.path)"
      #expect(recorder.err.hasSuffix("\n  If a server refuses it, sign in again with `\(command)`.\n"))
      #expect(!broker.methods.contains("account.refresh"))
    }
  }

  @Test("a logout reports the result of each step") func aLogoutSaysWhatEachStepCame() async throws {
    let steps: JSON = [
      ["step": "revoke_refresh_token", "result": "queued", "message": "503"], ["step": "forget", "result": "done"],
    ]
    try await ScriptedBroker.with(["account.logout": answer(["steps": steps])]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["logout", "work", "--no-revoke"], recorder) == .success)
      #expect(broker.params(of: "account.logout") == ["account": "work", "revoke": false])
      #expect(
        recorder.out == """
          Revoke the refresh token  not yet, it is tried again by itself: 503
          Forget the account        done
          Signed out: work

          """)
    }
  }

  @Test("events are printed as they arrive, and the daemon's end is an error", arguments: [false, true])
  func eventsArePrintedAsTheyComeAnd(json: Bool) async throws {
    let event: JSON = [
      "type": "token.refreshed", "at": .integer(Recorder.now), "account": "work", "provider": "google", "generation": 8,
    ]
    try await ScriptedBroker.with([
      "events.subscribe": { _, session in
        _ = session.notify(method: Event.method, params: event)
        session.holdOpen()
        return .success(["subscribed": ["token.refreshed"]])
      }
    ]) { broker, server async throws in
      let recorder = Recorder()
      async let status = broker.run(
        ["events", "--event", "token.refreshed"] + (json ? ["--json"] : []), recorder)
      #expect(await eventually { !recorder.out.isEmpty })
      #expect(
        recorder.out
          == (json ? Shell.line(event) : "2026-01-01 00:00:00  token.refreshed  work (google)  generation 8") + "\n")
      await server.drain(deadline: .zero)
      #expect(try await status == .notRunning)
    }
  }

  @Test("events about ends, outages and clocks are one line each") func eventsAreOneLineEach() {
    let shell = Shell(terminal: Recorder().terminal(), settings: .init(wish: .init(isUser: true)))
    let table: [(JSON, String)] = [
      (
        [
          "type": "refresh_token.expiring", "account": "work", "provider": "google",
          "message": "the refresh token of work ends in 3 days",
          "hint": "Sign in again with `grantctl login google work`.",
          "refresh_expires_at": .integer(Recorder.now + 259_200),
        ],
        "refresh_token.expiring  work (google)  the refresh token of work ends in 3 days (2026-01-04 00:00:00)  "
          + "Sign in again with `grantctl login google work --user`."
      ),
      (
        ["type": "provider.unreachable", "provider": "google", "message": "refused\nby x"],
        "provider.unreachable  google  refused\\nby x"
      ),
      (["type": "provider.recovered", "provider": "google"], "provider.recovered  google"),
      (["type": "store.failed", "reason": "store_failure", "message": "full", "hint": "h"], "store.failed  full  h"),
      (["type": "clock.stepped", "message": "set back by 60 s"], "clock.stepped  set back by 60 s"),
    ]
    for (event, line) in table {
      let dated = JSON.object([.init(name: "at", value: .integer(Recorder.now))] + (event.members ?? []))
      #expect(EventsCommand.line(dated, shell) == "2026-01-01 00:00:00  \(line)")
    }
  }

  @Test("a refused configuration is printed with its errors") func aRefusedConfigurationIsPrintedWithIts() async throws
  {
    let error = RPCError(
      .invalidConfiguration, "the configuration is refused", hint: "Mend it.", detail: "a.toml:3: x\na.toml:9: y")
    try await ScriptedBroker.with(["broker.reload": refuse(error)]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["reload"], recorder) == .configuration)
      #expect(
        recorder.err == "grantctl: the configuration is refused\n  a.toml:3: x\n  a.toml:9: y\n  Mend it.\n")
    }
    try await ScriptedBroker.with(["broker.reload": answer(["providers": 1, "warnings": ["restart for x"]])]) {
      broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["reload"], recorder) == .success)
      #expect(recorder.out == "Reloaded. The configuration has 1 provider.\n")
      #expect(recorder.err == "warning: restart for x\n")
    }
  }

  @Test("a reload fails if a listener cannot be served, and names the reason once") func reloadWithoutListener()
    async throws
  {
    let failed: JSON = [
      "setting": "[http] listen", "address": "port 1 of ::1", "state": "failed", "message": "uid 7 has it",
      "hint": "Stop it.",
    ]
    let reply: JSON = ["providers": 1, "warnings": ["uid 7 has it; stop it"], "listeners": [failed]]
    try await ScriptedBroker.with(["broker.reload": answer(reply)]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["reload"], recorder) == .failure)
      #expect(recorder.out == "Reloaded. The configuration has 1 provider.\n")
      #expect(recorder.err == "grantctl: uid 7 has it\n  Stop it.\n")
    }
  }

  @Test("metrics are printed unchanged, except terminal control characters")
  func metricsArePrinted() async throws {
    let text = "# TYPE a gauge\n# HELP a b\na{c=\"\u{1b}[31m\"} 1\n# EOF\n"
    try await ScriptedBroker.with(["broker.metrics": answer(["content_type": "x", "text": .string(text)])]) {
      broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      #expect(try await broker.run(["metrics"], plain) == .success)
      #expect(plain.out == "# TYPE a gauge\n# HELP a b\na{c=\"\\u{1B}[31m\"} 1\n# EOF\n")
      #expect(try await broker.run(["metrics", "--json"], json) == .success)
      #expect(json.out.hasPrefix(#"{"content_type":"x","text":"#))
    }
  }

  @Test("any method can be called") func anyMethodCanBeCalled() async throws {
    try await ScriptedBroker.with(["echo": { params, _ in .success(params) }]) { broker, _ async throws in
      let (given, read, bad) = (Recorder(), Recorder(), Recorder())
      #expect(try await broker.run(["call", "echo", #"{"a":1.50}"#], given) == .success)
      #expect(given.out == #"{"a":1.50}"# + "\n")
      read.type(#"{"b":"#)
      read.type("2}")
      read.endInput()
      #expect(try await broker.run(["call", "echo", "-"], read) == .success)
      #expect(read.out == #"{"b":2}"# + "\n")
      #expect(try await broker.run(["call", "echo", "{"], bad) == .usage)
    }
  }

  @Test("accounts of as many answers as it takes are listed as one, up to the number that is wanted")
  func listsFollowPages() async throws {
    let names = (0..<25).map { "a\(10 + $0)" }
    try await ScriptedBroker.with([
      "account.list": { params, _ in
        let rest = names.filter { $0 > params["after"]?.string ?? "" }
        let page = rest.prefix(min(10, params["limit"]?.integer.map(Int.init) ?? 10))
        var answer: [JSON.Member] = [
          .init(name: "accounts", value: .array(page.map { JSON(encoding: TableTests.account($0, .ok)) }))
        ]
        if page.count < rest.count, let last = page.last { answer.append(.init(name: "next", value: .string(last))) }
        return .success(.object(answer))
      }
    ]) { broker, _ async throws in
      for (options, count, next) in [([], 25, nil), (["--limit", "13"], 13, "a22"), (["--limit", "20"], 20, "a29")]
        as [([String], Int, String?)]
      {
        let (plain, json) = (Recorder(), Recorder())
        #expect(try await broker.run(["list"] + options, plain) == .success)
        #expect(names.count { plain.out.contains("\($0) ") } == count)
        #expect((plain.out + plain.err).contains("list --after") == (next != nil))
        #expect(try await broker.run(["list", "--json"] + options, json) == .success)
        let found = try JSON.parse(Array(json.out.utf8))
        #expect(found["accounts"]?.array?.count == count && found["next"]?.string == next)
      }
    }
  }

  @Test("a slow broker is given up after the time-out") func aSlowBrokerIsGivenUpAfter() async throws {
    let gate = Gate()
    try await ScriptedBroker.with([
      "account.list": { _, _ in
        await gate.wait()
        return .success(["accounts": []])
      }
    ]) { broker, _ async throws in
      #expect(try await broker.run(["list", "--timeout", "0.1"], Recorder()) == .temporarilyUnavailable)
      gate.open()
    }
  }

  @Test(
    "wrong arguments end with the status for usage",
    arguments: [
      ["login"], ["login list", "a"], ["login continue"], ["login", "a", "--param", "k"], ["token"],
      ["token", "a", "--json", "--as-header"],
      ["list", "--system", "--user"], ["list", "--timeout", "0"], ["list", "--timeout", "nan"],
      ["token", "a", "--min-ttl=-1"], ["login", "a", "--device", "--manual"], ["login", "a", "--qr", "always"],
      ["login", "a", "--device", "--qr", "big"], ["logout", "a", "--open"], ["import", "a"],
      ["import", "a", "token", "--provider", "p"], ["exchange", "a", "--json", "--as-header"], ["proof", "a", "GET"],
      ["proof", "a", "GET", "https://a", "--json", "--as-header"], ["provider", "register"],
      ["provider", "unregister"],
    ])
  func wrongArgumentsEndWithTheStatusFor(arguments: [String]) {
    let error = #expect(throws: (any Error).self) { try Grantctl.parseAsRoot(arguments) }
    #expect(error.map { Grantctl.exitCode(for: $0).rawValue } == ExitStatus.usage.rawValue)
  }

  @Test("the version is printed even without a daemon") func theVersionComesAlsoWhereNoDaemon() async throws {
    let recorder = Recorder()
    #expect(try await perform(["version"], recorder, environment: ["GRANTD_SOCKET": "/nowhere/s"]) == .success)
    #expect(recorder.out == "grantctl \(GrantdVersion.current)\ngrantd does not answer\n")
  }
}
