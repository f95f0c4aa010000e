import ArgumentParser
import BrokerAPI
import Foundation
import Testing
import UnixSocket

@testable import grantctl

/// The output of doctor for a scripted broker on a scripted machine.
@Suite struct DoctorTests {
  /// What can be seen of the machine; what is not written here is not there.
  final class Scene: Sendable {
    let files: [String: Machine.File]
    let folders: [String: [String]]
    let free: Int64?
    let answers: [String: Machine.Ended]
    let programs: Set<String>

    init(
      files: [String: Machine.File] = [:], folders: [String: [String]] = [:], free: Int64? = 5 << 30,
      answers: [String: Machine.Ended] = [:], programs: Set<String> = []
    ) {
      self.files = files
      self.folders = folders
      self.free = free
      self.answers = answers
      self.programs = programs
    }

    var machine: Machine {
      Machine(
        look: { [self] in files[$0].map { .found($0) } ?? .absent }, names: { [self] in folders[$0] },
        freeBytes: { [self] _ in free },
        run: { [self] command, _ in answers.first { command.joined(separator: " ").contains($0.key) }?.value })
    }
  }

  private func perform(
    _ arguments: [String], _ recorder: Recorder, _ scene: Scene, environment: [String: String]
  ) async throws -> ExitStatus {
    var terminal = recorder.terminal(environment: environment)
    terminal.machine = scene.machine
    terminal.programs.find = { scene.programs.contains($0) ? "/usr/bin/\($0)" : nil }
    terminal.files.exists = { scene.files[$0] != nil }
    let command = try Grantctl.parseAsRoot(arguments)
    return try await #require(command as? any BrokerCommand).perform(in: terminal)
  }

  static func status(_ change: (inout BrokerStatus.Result) -> Void = { _ in }) -> JSON {
    var status = BrokerStatus.Result(
      version: GrantdVersion.current, instance: "user", pid: 812, state: "running", started_at: Recorder.now - 10_800,
      summary: "1 ok", accounts: ["ok": 1], providers: 1, pending_logins: 0, callback: ["http://127.0.0.1:4180"],
      store: .init(path: "/s/grantd.db", state: "ok", message: nil),
      configuration: .init(path: "/c/grantd.toml", loaded_at: Recorder.now - 60),
      caller: .init(
        uid: 1000, access: ["use": ["*"], "id_token": ["*"], "login": ["*"], "manage": ["*"], "observe": ["*"]]))
    change(&status)
    return JSON(encoding: status)
  }

  static func provider(_ name: String) -> ProviderView {
    ProviderView(
      provider: name, kind: "oidc", profile: nil, display_name: name, issuer: nil, client_id: "c", scopes: [],
      accounts: 1, state: "ok", last_error: nil)
  }

  static func checked(_ provider: String, _ checks: [ProviderCheck.Check]) -> JSON {
    JSON(encoding: ProviderCheck.Result(provider: provider, checked_at: Recorder.now, checks: checks))
  }

  static let good = checked(
    "google",
    [
      .init(name: .issuer, result: .ok, message: "https://accounts.google.com"),
      .init(name: .keys, result: .skipped, message: "cannot be checked"),
      .init(name: .pkce, result: .skipped, message: "cannot be checked"),
      .init(name: .refresh_token, account: "work", result: .ok, message: "3 days old"),
    ])

  static func replies(
    status: JSON = status(), check: JSON = good, accounts: [AccountView] = [TableTests.account("work", .ok)]
  ) -> [String: ScriptedBroker.Reply] {
    [
      "broker.status": answer(status), "provider.list": answer(["providers": JSON(encoding: [provider("google")])]),
      "account.list": answer(["accounts": JSON(encoding: accounts)]), "provider.check": answer(check),
    ]
  }

  private func examine(
    _ replies: [String: ScriptedBroker.Reply], _ arguments: [String] = [], _ scene: Scene = Scene()
  ) async throws -> (status: ExitStatus, out: String, err: String) {
    var result: (ExitStatus, String, String)?
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await perform(
        ["doctor"] + arguments, recorder, scene, environment: ["GRANTD_SOCKET": broker.path])
      result = (status, recorder.out.replacing(broker.path, with: "/s/sock"), recorder.err)
    }
    return try #require(result)
  }

  /// Without the breaks of its lines.
  private func flat(_ text: String) -> String {
    text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  @Test("A locked broker is one finding among all checks that need no key") func locked() async throws {
    let scene = Scene(files: ["/s/grantd.key.locked": .init(kind: .file, mode: 0o600, uid: 1000)])
    let locked = Self.status {
      ($0.state, $0.callback) = ("locked", [])
      $0.store = .init(path: "/s", state: "locked", message: nil)
      $0.caller = .init(uid: 1000, access: [:])
    }
    for arguments in [[], ["google"]] {
      let (status, out, err) = try await examine(["broker.status": answer(locked)], arguments, scene)
      #expect(status == .temporarilyUnavailable && err.isEmpty)
      #expect(
        out == """
          Daemon
            skip  unit: not a systemd socket: grantd was started manually
            ok    socket: /s/sock
            ok    version: grantd and grantctl \(GrantdVersion.current), pid 812, running for 3 h
            FAIL  lock: the broker is locked: it returns no token, and refreshes none
                  → `grantctl unlock` unlocks it. Then `grantctl doctor` checks the rest.
            ok    configuration: /c/grantd.toml
            ok    key: /s/grantd.key.locked, mode 0600, under the passphrase
            ok    disk: 5 GB free at /s
            skip  clock: timedatectl does not say if it is synchronized; each provider's
                  clock is checked after the unlock
            skip  store, callback, listeners, providers, accounts: checked after the
                  unlock

          6 checks, 0 warnings, 1 failure

          """)
    }
  }

  @Test("The configuration file of a locked broker is checked, not the usual one") func lockedConfiguration()
    async throws
  {
    let scene = Scene(
      answers: [
        "grantd --user --check-config --config /c/grantd.toml": .init(status: 78, out: "", err: "a:3: x\n")
      ], programs: ["grantd"])
    let locked = Self.status {
      $0.state = "locked"
      $0.store = .init(path: "/s", state: "locked", message: nil)
    }
    let out = try await examine(["broker.status": answer(locked)], [], scene).out
    #expect(
      flat(out).contains(
        "FAIL configuration: grantd does not start with this configuration: a:3: x → Correct it; "
          + "`grantd --user --check-config --config /c/grantd.toml` checks it again, and `grantctl unlock` loads it."))
  }

  @Test("Held releases are a warning") func held() async throws {
    let held = Self.status { $0.hold = .init(since: Recorder.now, uid: 0, hint: "Release: `grantctl unlock`.") }
    let (status, out, _) = try await examine(Self.replies(status: held))
    #expect(status == .success)
    #expect(flat(out).contains("warn releases: all releases of tokens are held → Release: `grantctl unlock`."))
  }

  @Test("Without faults each check is a line, and the last one counts them") func allIsWell() async throws {
    let scene = Scene(
      files: [
        "/s/grantd.key": .init(kind: .file, mode: 0o600, uid: 1000), "/s": .init(kind: .folder, mode: 0o700, uid: 1),
      ])
    let (status, out, err) = try await examine(Self.replies(), [], scene)
    #expect(status == .success && err.isEmpty)
    #expect(
      out == """
        Daemon
          skip  unit: not a systemd socket: grantd was started manually
          ok    socket: /s/sock
          ok    version: grantd and grantctl \(GrantdVersion.current), pid 812, running for 3 h
          ok    policy: you (uid 1000) may do everything here
          ok    configuration: /c/grantd.toml
          ok    store: /s/grantd.db
          ok    key: /s/grantd.key, mode 0600
          ok    disk: 5 GB free at /s
          skip  clock: timedatectl does not say if it is synchronized; each provider's
                clock is compared with it
          ok    callback: http://127.0.0.1:4180

        Provider google
          ok    issuer: https://accounts.google.com
          skip  keys, PKCE: cannot be checked

        Account work (google)
          ok    state: ok, the token ends in 59 min, next refresh in 49 min
          ok    refresh token: 3 days old

        11 checks, 0 warnings, 0 failures

        """)
  }

  @Test("A failure has its next step, fits 80 columns, and sets the exit status; warnings do not")
  func failures() async throws {
    let bad = Self.checked(
      "google",
      [
        .init(
          name: .clock, result: .failed, message: "this machine's clock is 299 s ahead of the provider's \u{1B}[2J",
          hint: "Check timedatectl: it shows whether the clock is synchronized, and `timedatectl set-ntp true` helps."),
        .init(name: .scopes, result: .warning, message: "m", hint: "Run `grantctl reload`."),
      ])
    let failing = try await examine(Self.replies(check: bad, accounts: []), ["google"])
    #expect(failing.status == .failure && failing.err.isEmpty)
    #expect(
      failing.out.contains(
        """
        Provider google
          FAIL  clock: this machine's clock is 299 s ahead of the provider's \\u{1B}[2J
                → Check timedatectl: it shows whether the clock is synchronized, and
                  `timedatectl set-ntp true` helps.
          warn  scopes: m
                → Run `grantctl reload`.

        """))
    #expect(failing.out.hasSuffix(" checks, 1 warning, 1 failure\n"))
    #expect(failing.out.split(separator: "\n").allSatisfy { SafeText.width(String($0)) <= 80 })
    let warned = Self.checked("google", [.init(name: .scopes, result: .warning, message: "m", hint: "h")])
    #expect(try await examine(Self.replies(check: warned)).status == .success)
  }

  @Test("JSON has each check with its subject") func asJSON() async throws {
    let (status, out, _) = try await examine(Self.replies(), ["--json"])
    #expect(status == .success)
    let json = try JSON.parse(Array(out.utf8))
    #expect(json["ok"] == true && json["failures"] == 0)
    let checks = try #require(json["checks"]?.array)
    #expect(checks.first?["about"] == "daemon" && checks.first?["name"] == "unit")
    #expect(
      checks.last == [
        "about": "account", "provider": "google", "account": "work", "name": "refresh_token", "result": "ok",
        "message": "3 days old",
      ])
  }

  @Test("A single account or provider is checked by name, and an unknown one is an error")
  func named() async throws {
    let accounts = [TableTests.account("work", .ok), TableTests.account("home", .ok)]
    let one = try await examine(Self.replies(accounts: accounts), ["home"]).out
    #expect(one.contains("Account home") && !one.contains("Account work") && one.contains("Provider google"))
    let all = try await examine(Self.replies(accounts: accounts), ["google"]).out
    #expect(all.contains("Account home") && all.contains("Account work"))
    let none = try await examine(Self.replies(accounts: accounts), ["nobody"])
    #expect(none.status == .unknownName && none.err.contains("called nobody"))
  }

  @Test("An account that requires a user fails, with its own hint once") func accountStates() async throws {
    let accounts = [
      TableTests.account("mail", .loginRequired, expires: -5, error: TableTests.refused),
      TableTests.account("slow", .degraded, error: TableTests.refused),
      TableTests.account("gone", .actionRequired, provider: "other", error: nil),
    ]
    let check = Self.checked(
      "google", [.init(name: .refresh_token, account: "mail", result: .failed, message: "ended", hint: "login")])
    let (status, out, _) = try await examine(Self.replies(check: check, accounts: accounts))
    #expect(status == .failure)
    #expect(flat(out).contains("FAIL state: login required, the token ended 5 s ago: account a-rather"))
    #expect(out.contains("  warn  state: degraded") && !out.contains("refresh token: ended"))
    #expect(out.contains("  FAIL  state: action required") && out.contains("Account gone (other)"))
    #expect(out.contains("`grantctl show gone`"))
  }

  @Test("Many accounts without faults are one line, and faulty ones are listed") func manyAccounts() async throws {
    let accounts =
      (1...20).map { TableTests.account("a\($0)", .ok) }
      + [TableTests.account("mail", .loginRequired, error: TableTests.refused)]
    let (_, out, _) = try await examine(Self.replies(accounts: accounts))
    #expect(out.contains("Accounts (google)\n  ok    all others: 20 accounts are well\n"))
    #expect(out.contains("Account mail (google)\n  FAIL") && !out.contains("Account a1 "))
    let few = try await examine(Self.replies(accounts: Array(accounts.prefix(8)))).out
    #expect(few.contains("Account a8 (google)") && !few.contains("all others"))
  }

  static let daemonCases: [(JSON, Scene, line: String)] = [
    (
      status {
        $0.store = .init(
          path: "/s/grantd.db", state: "failing", message: "no space", hint: "Make room.", since: Recorder.now - 60,
          held_back: 2)
      }, Scene(), "  FAIL  store: failing since 1 min ago: no space; 2 refreshes are held back"
    ),
    (
      status { $0.store = .init(path: "/s/grantd.db", state: "slow", message: "slow disk") }, Scene(),
      "  warn  store: slow: slow disk"
    ),
    (status { $0.callback = [] }, Scene(), "  warn  callback: the callback endpoint does not listen"),
    (
      status {
        $0.listeners = [
          .init(setting: "[http] listen", address: "127.0.0.1:7817", state: "failed", message: "uid 7 has it")
        ]
      }, Scene(), "  FAIL  [http] listen: uid 7 has it"
    ),
    (
      status { $0.listeners = [.init(setting: "[http] listen", address: "127.0.0.1:7817", state: "ok")] }, Scene(),
      "  ok    [http] listen: 127.0.0.1:7817"
    ),
    (status { $0.version = "0.0.1" }, Scene(), "  warn  version: grantd 0.0.1, pid 812"),
    (
      status { $0.caller = .init(uid: 1000, access: ["observe": ["*"]]) }, Scene(),
      "  warn  policy: you (uid 1000) may observe *; no token of any account"
    ),
    (
      status { $0.caller = .init(uid: 1000, access: ["observe": ["*"], "use": ["work", "mail-*"]]) }, Scene(),
      "  ok    policy: you (uid 1000) may use work mail-*, observe *; not id_token,\n        login, manage"
    ),
    (status { $0.caller = nil }, Scene(), "  skip  policy:"),
    (status(), Scene(free: 5 << 20), "  FAIL  disk: 5 MB free at /s"),
    (status(), Scene(free: 50 << 20), "  warn  disk: 50 MB free at /s"),
    (status(), Scene(free: nil), "  skip  disk:"),
    (
      status(), Scene(files: ["/s/grantd.key": .init(kind: .file, mode: 0o640, uid: 1)]),
      "  FAIL  key: /s/grantd.key has mode 0640"
    ),
    (status(), Scene(), "  ok    key: not in the state folder"),
    (
      status(),
      Scene(folders: ["/s": ["grantd.db", "grantd.db.damaged-1", "grantd.db.damaged-2", "grantd.db.damaged-2-wal"]]),
      "  warn  damaged copies: 2 in /s, the latest grantd.db.damaged-2"
    ),
    (
      status(), Scene(files: ["/c/grantd.toml": .init(kind: .file, mode: 0o644, uid: 0, modifiedAt: Recorder.now - 9)]),
      "  warn  configuration: /c/grantd.toml"
    ),
    (
      status(), Scene(answers: ["--check-config": .init(status: 78, out: "", err: "a:3: x\n")], programs: ["grantd"]),
      "  FAIL  configuration: grantd does not start with this configuration:"
    ),
    (
      status(),
      Scene(
        answers: ["timedatectl": .init(status: 0, out: "NTPSynchronized=no\n", err: "")], programs: ["timedatectl"]),
      "  warn  clock: not synchronized"
    ),
  ]

  @Test("The checks of the daemon and its files", arguments: daemonCases.indices) func daemon(_ index: Int) async throws
  {
    let (status, scene, line) = Self.daemonCases[index]
    let out = try await examine(Self.replies(status: status), [], scene).out
    #expect(out.contains(line), "\(out)")
  }

  @Test("A broker that does not let the caller look says who may") func notPermitted() async throws {
    let error = RPCError(.notPermitted, "uid 1000 may not call broker.status", hint: "Ask an admin.")
    let (status, out, err) = try await examine(["broker.status": refuse(error)])
    #expect(status == .notPermitted && err.isEmpty)
    #expect(out.contains("  FAIL  policy: uid 1000 may not call broker.status\n        → Ask an admin.\n"))
  }

  @Test("A provider that cannot be checked is a separate failure") func checkFails() async throws {
    var replies = Self.replies()
    replies["provider.check"] = refuse(RPCError(.timedOut, "the check of provider google did not end in time"))
    let (status, out, _) = try await examine(replies)
    #expect(status == .failure && out.contains("  FAIL  check: the check of provider google did not end in time"))
    #expect(out.contains("  ok    state: ok"))
  }

  static let user = "/run/user/1000/grantd/grantd.sock"
  static let absent: [(Scene, [String], lines: [String])] = [
    (
      Scene(
        answers: [
          "systemctl show": .init(
            status: 0, out: "LoadState=loaded\nActiveState=failed\nResult=start-limit-hit\nExecMainStatus=1\n", err: "")
        ], programs: ["systemctl"]), ["--system"],
      [
        "  FAIL  unit: grantd.service has failed: it was started too often in a short time (start-limit-hit), status 1",
        "→ `journalctl -u grantd -n 30` says why. Correct that; then `sudo systemctl reset-failed grantd.service "
          + "grantd.socket`, and `sudo systemctl restart grantd.socket grantd`.",
      ]
    ),
    (
      Scene(), ["--user"],
      [
        "  skip  unit: there is no systemctl here", "  FAIL  socket: there is none at \(user)",
        "        → Start the daemon: `systemctl --user start grantd.socket`.",
        "  skip  configuration: grantd is not in PATH",
      ]
    ),
    (
      Scene(
        files: [user: .init(kind: .socket, mode: 0o600, uid: 1000)],
        answers: [
          "systemctl --user show": .init(
            status: 0, out: "LoadState=loaded\nActiveState=failed\nResult=exit-code\nExecMainStatus=78\n", err: ""),
          "grantd --user --check-config": .init(status: 78, out: "", err: "grantd.toml:3: unknown key\n"),
        ], programs: ["systemctl", "grantd"]), [],
      [
        "  FAIL  unit: grantd.service has failed: exit-code, status 78",
        "        → The configuration has an error: `grantd --user --check-config` says where.",
        "  FAIL  socket: \(user) exists, but no process listens: the",
        "  FAIL  configuration: grantd does not start with",
        "grantd.toml:3: unknown key",
      ]
    ),
    (
      Scene(
        answers: ["systemctl show": .init(status: 0, out: "LoadState=not-found\nActiveState=inactive\n", err: "")],
        programs: ["systemctl"]), ["--system"],
      [
        "  FAIL  unit: grantd.service is not installed", "  FAIL  socket: there is none at /run/grantd/grantd.sock",
        "  skip  configuration: only the daemon's user can check it",
      ]
    ),
    (
      Scene(
        answers: ["systemctl show": .init(status: 0, out: "LoadState=loaded\nActiveState=inactive\n", err: "")],
        programs: ["systemctl"]), ["--system"],
      ["`sudo systemctl enable --now grantd.socket grantd`"]
    ),
    (
      Scene(
        answers: ["systemctl": .init(status: 1, out: "", err: "System has not been booted with systemd\n")],
        programs: ["systemctl"]), ["--system"], ["  skip  unit: systemd does not run here"]
    ),
    (
      Scene(), ["--socket", "/nowhere/s"],
      ["  skip  unit: not a systemd socket", "start grantd with --socket /nowhere/s"]
    ),
  ]

  @Test("Without a broker the missing part is named", arguments: absent.indices)
  func noBroker(_ index: Int) async throws {
    let (scene, arguments, lines) = Self.absent[index]
    let recorder = Recorder()
    #expect(try await perform(["doctor"] + arguments, recorder, scene, environment: [:]) == .notRunning)
    for line in lines { #expect(flat(recorder.out).contains(flat(line)), "\(recorder.out)") }
    #expect(recorder.err.isEmpty)
  }

  @Test("A program that is asked is bounded in time and output") func children() async throws {
    let machine = Machine.own
    let spoken = try #require(await machine.run(["/bin/sh", "-c", "echo a; echo b >&2; exit 3"], .seconds(20)))
    #expect(spoken == .init(status: 3, out: "a\n", err: "b\n"))
    let loud = try #require(
      await machine.run(["/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"], .seconds(20)))
    #expect(loud.status == 0 && loud.out.utf8.count >= 64 * 1024 && loud.out.utf8.count < 80 * 1024)
    let started = ContinuousClock.now
    #expect(await machine.run(["/bin/sleep", "60"], .milliseconds(200)) == nil)
    #expect(ContinuousClock.now - started < .seconds(20))
    #expect(await machine.run(["/nowhere/program"], .seconds(1)) == nil)
    #expect(machine.look("/nowhere/file") == .absent)
    guard case .found(let file) = machine.look("/") else {
      Issue.record("there is no /")
      return
    }
    #expect(file.kind == .folder && (machine.freeBytes("/") ?? 0) > 0)
  }
}
