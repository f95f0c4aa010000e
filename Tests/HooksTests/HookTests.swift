import Broker
import BrokerAPI
import Foundation
import Logging
import TestSupport
import Testing

@testable import Hooks

@Suite(.timeLimit(.minutes(5))) struct HookTests {
  private static let event = Event(
    type: .tokenFailed, at: 1_767_225_600, account: "work", provider: "example", login_id: "L1", generation: 7,
    reason: .temporarilyUnavailable, message: "the provider says:\u{1b}[31m\r\nPATH=/evil \u{202e}\"quoted\"",
    hint: "Wait.", refresh_expires_at: 1_767_229_200)

  @Test("a hook gets the event as a line of JSON, and an environment of exactly the documented variables")
  func told() async throws {
    let folder = try Folder()
    // /proc/PID/environ is what the kernel was given, before the shell adds its own.
    let program = try folder.script(
      "hook", "cat /proc/$$/environ > $here/environment; cat > $here/event; mv $here/event $here/done")
    let hooks = Hooks(
      [.test(program, pass: ["DBUS_SESSION_BUS_ADDRESS", "NOT_THERE"])],
      environment: [
        "PATH": "/usr/bin:/bin", "HOME": "/root", "CREDENTIALS_DIRECTORY": "/run/secret",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/bus",
      ])
    hooks.handle(Self.event)
    #expect(await eventually { hooks.count(.succeeded) == 1 })
    let variables = try #require(folder.read("environment")).split(separator: "\0").map(String.init)
    #expect(
      variables == [
        "DBUS_SESSION_BUS_ADDRESS=unix:path=/bus", "GRANTD_ACCOUNT=work", "GRANTD_AT=1767225600",
        "GRANTD_EVENT=token.failed", "GRANTD_GENERATION=7", "GRANTD_HINT=Wait.", "GRANTD_LOGIN_ID=L1",
        "GRANTD_MESSAGE=the provider says: [31m PATH=/evil \"quoted\"", "GRANTD_PROVIDER=example",
        "GRANTD_REASON=temporarily_unavailable", "GRANTD_REFRESH_EXPIRES_AT=1767229200", "LANG=C.UTF-8",
        "PATH=/usr/bin:/bin",
      ])
    let line = try #require(folder.read("done"))
    #expect(line.hasSuffix("}\n") && line.dropLast().allSatisfy { $0 != "\n" })
    let event = try JSON.parse(Array(line.utf8)).decode(Event.self)
    #expect(event.type == .tokenFailed && event.message == "the provider says: [31m PATH=/evil \"quoted\"")
  }

  @Test("members that an event lacks are not in the environment")
  func absent() {
    let variables = HookInput(Event(type: .configurationReloaded, at: 1)).environment(own: [:], pass: [])
    #expect(
      variables == [
        "GRANTD_AT=1", "GRANTD_EVENT=configuration.reloaded", "LANG=C.UTF-8", "PATH=\(HookInput.standardPath)",
      ])
  }

  @Test("an unsafe character becomes a space, and the others stay")
  func unsafeCharacters() {
    for scalar in UnsafeCharacters.all {
      #expect(HookInput.clean("a" + String(scalar) + "b", limit: 10) == "a b", "\(scalar.value)")
    }
    for scalar in UnsafeCharacters.safe {
      let text = "a" + String(scalar) + "b"
      let found = HookInput.clean(text, limit: 10)
      #expect(found.unicodeScalars.elementsEqual(text.unicodeScalars), "\(scalar.value)")
    }
  }

  @Test("an event with the longest texts fits the smallest pipe")
  func longest() {
    let long = String(repeating: "\\\"", count: 5000)
    let event = Event(
      type: .refreshTokenExpiring, at: .max, account: String(repeating: "a", count: 128),
      provider: String(repeating: "p", count: 64), login_id: String(repeating: "l", count: 64), generation: .max,
      reason: .providerMisconfigured, message: long, hint: long, refresh_expires_at: .max)
    #expect(HookInput(event).line.count <= 4096)
    #expect(
      HookInput(Event(type: .loginFailed, at: 1, message: String(repeating: "𝄞", count: 5000))).line.count <= 4096)
  }

  @Test("arguments are passed unchanged: no shell reads them")
  func literal() async throws {
    let folder = try Folder()
    let program = try folder.script("hook", "printf '%s\\n' \"$#\" \"$@\" > $here/out; touch $here/done")
    let arguments = [
      "a b", "\"quoted\"", "it's", "$(touch \(folder.path)/pwned)", "`touch \(folder.path)/pwned`", "$HOME", "*", "",
      "; touch \(folder.path)/pwned", "\\n", "--", "ünï",
    ]
    let hooks = Hooks([.test(program + arguments)])
    hooks.handle(Self.event)
    #expect(await eventually { folder.has("done") })
    #expect(folder.read("out") == (["\(arguments.count)"] + arguments).joined(separator: "\n") + "\n")
    #expect(!folder.has("pwned"))
  }

  @Test(
    "a hook is run for its events and accounts",
    arguments: [
      (["login.required"], nil, "login.required", "work", true),
      (["login.required"], nil, "token.failed", "work", false),
      (["login.required"], ["work-*"], "login.required", "work-1", true),
      (["login.required"], ["work-*"], "login.required", "home", false),
      (["login.required", "token.failed"], ["*"], "token.failed", "home", true),
      (["store.failed"], nil, "store.failed", nil, true), (["store.failed"], ["*"], "store.failed", nil, false),
    ] as [([String], [String]?, String, String?, Bool)])
  func wanted(_ events: [String], _ accounts: [String]?, _ type: String, _ account: String?, _ isWanted: Bool) throws {
    let hook = Hook.test(["/bin/true"], events: Set(events.compactMap { EventType(rawValue: $0) }), accounts: accounts)
    let event = Event(type: try #require(EventType(rawValue: type)), at: 1, account: account)
    #expect(hook.wants(event) == isWanted)
  }

  @Test("300 events of a hook that hangs are limited, and the oldest are dropped")
  func bounded() async throws {
    let folder = try Folder()
    let log = LoggedLines()
    let program = try folder.script(
      "hook", "while [ ! -e $here/go ]; do sleep 0.05; done; touch $here/ran-$GRANTD_AT")
    let hooks = Hooks([.test(program)], log: log)
    for number in 1...300 { hooks.handle(Event(type: .tokenRefreshed, at: Int64(number), account: "work")) }
    #expect(hooks.statistics == .init(running: 4, queued: 256, dropped: 40, results: [:]))
    #expect(log.all.filter { $0.level == .warning }.count == 1, "it is said once")
    folder.touch("go")
    #expect(await eventually(within: .seconds(120)) { hooks.count(.succeeded) == 260 })
    #expect(hooks.statistics.running == 0 && hooks.statistics.queued == 0)
    let ran = Set(folder.names("ran-").compactMap { Int($0.dropFirst(4)) })
    #expect(ran == Set(1...4).union(45...300))
  }

  @Test("a hook that hangs delays no other, and one event runs all of its hooks at once")
  func fair() async throws {
    let folder = try Folder()
    let slow = try folder.script("slow", "while [ ! -e $here/go ]; do sleep 0.05; done")
    let quick = try folder.script("quick", "touch $here/quick-$GRANTD_AT")
    let hooks = Hooks([.test(slow, name: "a:1"), .test(quick, name: "a:2"), .test(quick, name: "a:3")])
    for number in 1...20 { hooks.handle(Event(type: .tokenRefreshed, at: Int64(number))) }
    #expect(await eventually { hooks.count(.succeeded) == 40 })
    #expect(folder.names("quick-").count == 20)
    #expect(hooks.statistics.running == 4 && hooks.statistics.queued == 16)
    folder.touch("go")
    #expect(await eventually { hooks.count(.succeeded) == 60 })
  }

  @Test("with the broker a hook ends too: it has some time, then SIGTERM, then SIGKILL")
  func stopping() async throws {
    let folder = try Folder()
    let quick = try folder.script("quick", "sleep 0.3; touch $here/quick-done")
    let polite = try folder.script(
      "polite", "trap 'touch $here/polite-done; exit 0' TERM; touch $here/1; sleep 60 & wait")
    let stubborn = try folder.script("stubborn", "trap '' TERM; echo $$ > $here/2; while :; do sleep 1; done")
    let hooks = Hooks([.test(quick, name: "a:1"), .test(polite, name: "a:2"), .test(stubborn, name: "a:3")]) {
      $0.ending = .seconds(3)
      $0.grace = .seconds(3)
    }
    hooks.handle(Self.event)
    #expect(await eventually { folder.has("1") && folder.read("2")?.hasSuffix("\n") == true })
    let pid = try folder.pid("2")
    await hooks.stop()
    #expect(hooks.statistics == .init(running: 0, queued: 0, dropped: 0, results: [.succeeded: 1, .stopped: 2]))
    #expect(folder.has("quick-done") && folder.has("polite-done"))
    #expect(!runs(pid))
    hooks.handle(Self.event)
    #expect(hooks.statistics.running == 0)
  }

  @Test("new hooks count from the next event on")
  func replaced() async throws {
    let folder = try Folder()
    let program = try folder.script("hook", "touch $here/$1")
    let hooks = Hooks([.test(program + ["one"])])
    hooks.handle(Self.event)
    hooks.replace(by: [.test(program + ["two"])])
    hooks.handle(Self.event)
    #expect(await eventually { hooks.count(.succeeded) == 2 })
    #expect(folder.has("one") && folder.has("two"))
  }
}
