import ArgumentParser
import BrokerAPI
import TestSupport
import Testing

@testable import grantctl

/// The destination of a login, out of the destinations of the broker.
@Suite struct DestinationTests {
  static let web = "https://provider.example/authorize?state=s1"
  private static let desktop = ["DISPLAY": ":0"]

  /// Each place by its kind, `native` with its app and its address.
  static func started(_ kinds: [String], redirect: String = "http://127.0.0.1:4180/callback") -> JSON {
    let places = kinds.map { kind -> JSON in
      let words = kind.split(separator: " ").map(String.init)
      switch words[0] {
      case "native":
        return [
          "kind": "native", "app": .string(words[1]), "url": .string(words[2]), "redirect_uri": .string(redirect),
        ]
      case "device": return ["kind": "device", "user_code": "ABCD", "verification_uri": "https://provider.example/d"]
      default: return ["kind": .string(kind), "url": .string(web), "redirect_uri": .string(redirect)]
      }
    }
    return [
      "login_id": "L1", "account": "work", "expires_at": .integer(Recorder.now + 600), "destinations": .array(places),
      "warnings": [],
    ]
  }

  /// A broker that remembers what was opened, as grantd does.
  static func replies(_ start: JSON) -> [String: ScriptedBroker.Reply] {
    [
      "login.start": answer(start), "login.cancel": answer(["cancelled": true]),
      "login.wait": { params, _ in
        let opened = params["opened"] ?? .null
        let offered = start["destinations"]?.array?.first
        let isFirst = opened["kind"] == offered?["kind"] && opened["app"] == offered?["app"]
        return .success([
          "login_id": "L1", "state": "completed", "account": JSON(encoding: TableTests.account("work", .ok)),
          "destination_used": opened, "fell_back": .bool(!isFirst),
        ])
      },
    ]
  }

  struct Case: Sendable {
    var name: String
    var places: [String]
    var handlers: [String: String] = [:]
    var failing: Set<String> = []
    var environment = DestinationTests.desktop
    var options: [String] = []
    var launched: [[String]] = []
    var opened: JSON
    var words: String
    var note: String?
    /// What is not said.
    var unsaid: String?
  }

  static let cases = [
    Case(
      name: "an installed app comes first", places: ["native main dbapi-2://1/connect", "browser", "manual"],
      handlers: ["x-scheme-handler/dbapi-2": "dropbox.desktop"],
      launched: [["/usr/bin/xdg-open", "dbapi-2://1/connect"]], opened: ["kind": "native", "app": "main"],
      words: ", in the app main", note: "The app main opens to sign in at google."),
    Case(
      name: "apps that are not here are passed over in silence without --app",
      places: ["native main dbapi-2://1/connect", "native emm dbapi-8-emm://1/connect", "browser", "manual"],
      launched: [["/usr/bin/xdg-open", web]], opened: ["kind": "browser"],
      words: ", in the browser", unsaid: "Not on this machine"),
    Case(
      name: "apps that were asked for and are not here are passed over, with one note",
      places: ["native main dbapi-2://1/connect", "native emm dbapi-8-emm://1/connect", "browser", "manual"],
      options: ["--app", "main", "--app", "emm"],
      launched: [["/usr/bin/xdg-open", web]], opened: ["kind": "browser"],
      words: ", in the browser, not in the app main",
      note: "Not on this machine: the apps main, emm. Going on without."),
    Case(
      name: "the second app, if only that is installed",
      places: ["native main dbapi-2://1/connect", "native emm dbapi-8-emm://1/connect", "browser"],
      handlers: ["x-scheme-handler/dbapi-8-emm": "emm.desktop"], options: ["--app", "main", "--app", "emm"],
      launched: [["/usr/bin/xdg-open", "dbapi-8-emm://1/connect"]], opened: ["kind": "native", "app": "emm"],
      words: ", in the app emm, not in the app main", note: "Not on this machine: the app main."),
    Case(
      name: "no app claims addresses of the web", places: ["native rides https://auth.example/riders", "browser"],
      handlers: ["x-scheme-handler/https": "firefox.desktop"], launched: [["/usr/bin/xdg-open", web]],
      opened: ["kind": "browser"], words: ", in the browser"),
    Case(
      name: "an app that fails to open is passed over",
      places: ["native main dbapi-2://1/connect", "browser", "manual"],
      handlers: ["x-scheme-handler/dbapi-2": "dropbox.desktop"], failing: ["/usr/bin/xdg-open"],
      launched: [["/usr/bin/xdg-open", "dbapi-2://1/connect"], ["/usr/bin/xdg-open", web]],
      opened: ["kind": "manual"], words: ", by a printed URL",
      note: "The app main did not open. Going on without."),
    Case(
      name: "the next browser is tried", places: ["browser", "manual"], failing: ["/usr/bin/ff"],
      environment: ["BROWSER": "ff:w3m"], launched: [["/usr/bin/ff", web], ["/usr/bin/w3m", web]],
      opened: ["kind": "browser"], words: ", in the browser", note: "/usr/bin/ff did not open the browser."),
    Case(
      name: "without a browser another device comes before a pasted address", places: ["browser", "device", "manual"],
      environment: [:], opened: ["kind": "device"], words: ", on another device, not in the browser"),
    Case(
      name: "without a browser the address is shown", places: ["browser", "manual"], environment: [:],
      opened: ["kind": "manual"], words: ", by a printed URL, not in the browser"),
    Case(
      name: "only a browser: its URL is shown if none opens", places: ["browser"], environment: [:],
      opened: ["kind": "browser"], words: ", in the browser"),
    Case(
      name: "--no-browser starts nothing, and that is not a fall-back", places: ["browser", "manual"],
      options: ["--no-browser"], opened: ["kind": "browser"], words: ", in the browser"),
    Case(
      name: "--no-browser opens no app either", places: ["native main dbapi-2://1/connect", "browser"],
      handlers: ["x-scheme-handler/dbapi-2": "dropbox.desktop"], options: ["--no-browser"],
      opened: ["kind": "browser"], words: ", in the browser"),
    Case(
      name: "what a newer broker offers is passed over", places: ["hologram", "browser"],
      launched: [["/usr/bin/xdg-open", web]], opened: ["kind": "browser"], words: ", in the browser, not by hologram"),
  ]

  @Test("the destinations are tried in the broker's order, and the opened one is reported", arguments: cases)
  func order(scene: Case) async throws {
    try await ScriptedBroker.with(Self.replies(Self.started(scene.places))) { broker, _ async throws in
      let recorder = Recorder()
      recorder.handlers = scene.handlers
      recorder.failing = scene.failing
      let status = try await broker.run(
        ["login", "google", "work"] + scene.options, recorder, environment: scene.environment)
      #expect(status == .success, "\(scene.name)")
      #expect(recorder.launched == scene.launched, "\(scene.name)")
      #expect(broker.params(of: "login.wait")?["opened"] == scene.opened, "\(scene.name)")
      #expect(recorder.out.contains("Signed in to work as ada@example.com at google\(scene.words)\n"), "\(scene.name)")
      let isShown = scene.opened == ["kind": "manual"] || scene.opened == ["kind": "browser"] && scene.launched.isEmpty
      #expect(recorder.out.contains(Self.web) == isShown, "\(scene.name)")
      if let note = scene.note { #expect(recorder.err.contains(note), "\(scene.name)") }
      if let unsaid = scene.unsaid { #expect(!recorder.err.contains(unsaid), "\(scene.name)") }
    }
  }

  @Test("the broker is informed about an app before it opens") func toldFirst() async throws {
    let start = Self.started(["native main dbapi-2://1/connect", "browser"])
    try await ScriptedBroker.with(Self.replies(start)) { broker, _ async throws in
      let recorder = Recorder()
      recorder.handlers = ["x-scheme-handler/dbapi-2": "dropbox.desktop"]
      let status = try await broker.run(["login", "dropbox"], recorder, environment: Self.desktop) {
        $0.programs.launch = { _ in
          #expect(broker.methods == ["login.start", "login.wait"])
          #expect(broker.params(of: "login.wait")?["opened"] == ["kind": "native", "app": "main"])
          return true
        }
      }
      #expect(status == .success && broker.methods.count == 3)
    }
  }

  @Test("with --json the result says which place was used") func json() async throws {
    try await ScriptedBroker.with(Self.replies(Self.started(["native a b.c://x", "browser"]))) {
      broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["login", "google", "--json"], recorder, environment: Self.desktop)
      let result = try JSON.parse(Array(recorder.out.utf8))
      #expect(status == .success && result["fell_back"] == true)
      #expect(result["destination_used"] == ["kind": "browser"])
    }
  }

  @Test("the wishes of a login go to the broker") func wishes() async throws {
    try await ScriptedBroker.with(Self.replies(Self.started(["browser"]))) { broker, _ async throws in
      let arguments = [
        "login", "uber", "--app", "eats", "--app", "rides", "--idp", "google", "--prefill", "email=a=b@example.com",
        "--prefill", "first_name=Ada",
      ]
      #expect(try await broker.run(arguments, Recorder()) == .success)
      #expect(
        broker.params(of: "login.start") == [
          "provider": "uber", "apps": ["eats", "rides"], "idp": "google",
          "prefill": ["email": "a=b@example.com", "first_name": "Ada"], "join": true,
        ])
    }
  }

  @Test(
    "wishes that cannot be are wrong arguments",
    arguments: [
      ["uber", "--prefill", "email"], ["uber", "--prefill", "age=7"],
      ["uber", "--prefill", "email=a", "--prefill", "email=b"], ["uber", "--username", "ada", "--app", "rides"],
      ["uber", "--attribute", "=x"], ["uber", "--attribute-json", "a={"], ["uber", "--replace-session", ""],
      ["uber", "--attribute", "a=1", "--attribute-json", "a=1"],
    ])
  func wrong(arguments: [String]) {
    #expect(throws: (any Error).self) { try Grantctl.parseAsRoot(["login"] + arguments) }
  }

  @Test("an authorization code is all that goes to standard output", arguments: [[:], desktop])
  func code(environment: [String: String]) async throws {
    let done: JSON = ["login_id": "L1", "state": "completed", "authorization_code": "c-0_~"]
    try await ScriptedBroker.with([
      "login.start": answer(Self.started(["browser", "manual"])), "login.wait": answer(done),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "uber", "--code-only"], recorder, environment: environment) == .success)
      #expect(recorder.out == "c-0_~\n" && recorder.err.contains(Self.web))
      #expect(broker.params(of: "login.start") == ["provider": "uber", "exchange": false])
    }
  }

  @Test(
    "a URL that no program opens can be pasted, and the automatic way is shown", arguments: [true, false])
  func ownScheme(isRegistered: Bool) async throws {
    let gate = Gate()
    var replies = Self.replies(Self.started(["browser", "manual"], redirect: "de.7pass.example:/cb/authz"))
    let done = replies["login.wait"]
    replies["login.wait"] = { params, session in
      await gate.wait()
      return await done?(params, session) ?? .failure(.internalError(""))
    }
    replies["login.handle_callback"] = { _, _ in
      gate.open()
      return .success(["handled": true, "login_id": "L1"])
    }
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let recorder = Recorder()
      if isRegistered { recorder.handlers = ["x-scheme-handler/de.7pass.example": "other.desktop"] }
      async let status = broker.run(["login", "google"], recorder, environment: Self.desktop) { $0.canAsk = true }
      #expect(await eventually { broker.methods.contains("login.wait") })
      #expect(recorder.err.contains("Paste this complete URL here") == !isRegistered)
      #expect(recorder.err.contains("grantctl handle-url --register de.7pass.example") == !isRegistered)
      if isRegistered { gate.open() } else { recorder.type("de.7pass.example:/cb/authz?code=c&state=s1") }
      #expect(try await status == .success)
      #expect(broker.methods.contains("login.handle_callback") == !isRegistered)
      #expect(broker.params(of: "login.wait")?["opened"] == ["kind": "browser"])
    }
  }

  @Test("without a terminal the command to pass the URL is shown") func ownSchemeUnattended() async throws {
    let start = Self.started(["browser", "manual"], redirect: "de.7pass.example:/cb/authz")
    try await ScriptedBroker.with(Self.replies(start)) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "google"], recorder, environment: Self.desktop) == .success)
      #expect(recorder.err.contains("Pass this complete URL to:\n  grantctl handle-url -\nTo handle"))
    }
  }

  @Test("a pasted address may lead on, in the browser where one may open", arguments: [true, false])
  func leadsOn(isWanted: Bool) async throws {
    let gate = Gate()
    let next = "https://provider.example/external?code=c"
    var replies = Self.replies(Self.started(["browser", "manual"]))
    replies["login.wait"] = { _, _ in
      await gate.wait()
      return .success(LoginTests.completed)
    }
    replies["login.handle_callback"] = answer(["handled": true, "next_url": .string(next)])
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let recorder = Recorder()
      let options = isWanted ? [] : ["--no-browser"]
      async let status = broker.run(
        ["login", "google"] + options, recorder, environment: ["BROWSER": "ff"]
      ) {
        $0.canAsk = true
        // Nothing opens at first.
        if isWanted { recorder.failing = ["/usr/bin/ff"] }
      }
      #expect(await eventually { broker.methods.contains("login.wait") })
      recorder.failing = []
      recorder.type("fb1://authorize?state=x&code=c")
      #expect(await eventually { (recorder.out + recorder.err).contains(next) })
      #expect(recorder.launched.contains(["/usr/bin/ff", next]) == isWanted)
      gate.open()
      #expect(try await status == .success)
    }
  }
}
