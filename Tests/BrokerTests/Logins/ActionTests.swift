import BrokerAPI
import Foundation
import Grants
import OAuth
import Testing

@testable import Broker

/// Logins that ask for more than a sign-in.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ActionTests {
  private let limited: ScriptedTransport.Answer = { request in
    request.form["session_id"] == nil ? reply("{}", status: 419) : TokenServer.granted(request, lifetime: 3600)
  }

  private func rig(
    store: MemoryStore = MemoryStore(), clock: ManualClock = ManualClock(),
    _ change: (inout SteppedProvider) -> Void = { _ in }
  ) async throws -> Rig {
    let rig = try await Rig(clock: clock, store: store, configuration: .plain([SteppedProvider(change)]))
    rig.transport.answer(.token, limited)
    return rig
  }

  /// A login that waits for a session to be replaced.
  private func waiting(_ rig: Rig) async throws -> LoginStart.Result {
    let login = try await rig.start()
    let outcome = await rig.callBack(login, ["state": nil])
    #expect(outcome.kind == .actionRequired)
    return login
  }

  private func go(
    on rig: Rig, _ login: LoginStart.Result, _ session: String? = "s1"
  ) async throws -> LoginContinue.Result {
    try await rig.call(LoginContinue.self, .init(login_id: login.login_id, session_id: session))
  }

  @Test("A login at its session limit waits with the list of sessions and continues with a choice")
  func goesOn() async throws {
    let rig = try await rig()
    let login = try await waiting(rig)
    let told = try await rig.waitFor(login, timeout: 60)
    #expect(told.state == .actionRequired && told.action?.kind == .sessionLimit)
    #expect(told.action?.sessions?.map(\.session_id) == ["s1", "s2"] && told.action?.sessions_limit == 2)
    #expect(try await rig.call(LoginList.self, NoParams()).logins.map(\.state) == [.actionRequired])
    let ended = try await go(on: rig, login)
    #expect(ended.state == .completed && ended.account?.identity?.subject == "alice")
    #expect(rig.transport.requests(.token).last?.form == ["code": "work", "session_id": "s1"])
    #expect(rig.store.logins.isEmpty && rig.store.grant("work") != nil)
  }

  @Test("It asks again as often as the provider does")
  func again() async throws {
    let rig = try await rig()
    let login = try await waiting(rig)
    rig.transport.answer(.token) { _ in reply("{}", status: 419) }
    #expect(try await go(on: rig, login).state == .actionRequired)
    #expect(try await go(on: rig, login, "s2").state == .actionRequired)
    rig.transport.answer(.token, limited)
    #expect(try await go(on: rig, login).state == .completed)
  }

  @Test("It is on disk: a restart in between loses nothing")
  func restart() async throws {
    let (store, clock) = (MemoryStore(), ManualClock())
    let login = try await waiting(try await rig(store: store, clock: clock))
    let saved = try #require(store.logins.first)
    #expect(saved.memory == ["code": Secret("work"), "device": Secret("device-1")] && saved.action != nil)
    let restarted = try await rig(store: store, clock: clock)
    #expect(try await restarted.waitFor(login).state == .actionRequired)
    #expect(try await go(on: restarted, login).state == .completed)
  }

  @Test("An input that the provider refuses can be corrected, and an outage repeated")
  func mended() async throws {
    let rig = try await rig()
    let login = try await waiting(rig)
    rig.transport.answer(.token) { _ in reply("{}", status: 422) }
    let error = await #expect(throws: RPCError.self) { _ = try await go(on: rig, login) }
    #expect(
      error?.reason == .registrationRejected && error?.detail == "bad_request" && error?.fields == ["f": ["wrong"]])
    rig.transport.answer(.token) { _ in reply("{}", status: 503) }
    #expect(await rig.reason { try await go(on: rig, login) } == .temporarilyUnavailable)
    rig.transport.answer(.token, TokenServer.failing(.timedOut))
    #expect(await rig.reason { try await go(on: rig, login) } == .temporarilyUnavailable)
    #expect(try await rig.waitFor(login).state == .actionRequired)
    rig.transport.answer(.token, limited)
    #expect(try await go(on: rig, login).state == .completed)
  }

  @Test("Only the requested inputs continue a login, only by its user; otherwise nothing is sent")
  func wrong() async throws {
    let rig = try await rig()
    let pending = try await rig.start()
    await #expect(throws: RPCError.self) { _ = try await go(on: rig, pending) }
    _ = await rig.callBack(pending, ["state": nil])
    let sent = rig.transport.count(.token)
    for session in [nil, "", "s3"] {
      let error = await #expect(throws: RPCError.self) { _ = try await go(on: rig, pending, session) }
      #expect(error?.code == -32602, "\(session ?? "none")")
    }
    let attributes = LoginContinue.Params(login_id: pending.login_id, attributes: ["a": .string("b")])
    await #expect(throws: RPCError.self) { _ = try await rig.call(LoginContinue.self, attributes) }
    #expect(rig.transport.count(.token) == sent)
    #expect(
      await rig.reason {
        try await rig.call(
          LoginContinue.self, .init(login_id: pending.login_id, session_id: "s1"), as: .user(1000))
      } == .notPermitted)
  }

  @Test("Two concurrent continuations send one request, and the login cannot be cancelled during it")
  func twice() async throws {
    let rig = try await rig()
    let login = try await waiting(rig)
    rig.transport.hold(.token)
    let first = Task { try await go(on: rig, login) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    #expect(await rig.reason { try await go(on: rig, login, "s2") } == .loginInProgress)
    #expect(try await !rig.call(LoginCancel.self, .init(login_id: login.login_id)).cancelled)
    rig.transport.release(.token)
    #expect(try await first.value.state == .completed)
    #expect(rig.transport.requests(.token).filter { $0.form["session_id"] != nil }.count == 1)
  }

  @Test("If the wait cannot be saved, the login fails with that reason")
  func disk() async throws {
    let rig = try await rig()
    let login = try await rig.start()
    rig.store.set(.fails) { changes in changes.contains { if case .putLogin = $0 { true } else { false } } }
    #expect(await rig.callBack(login, ["state": nil]).kind == .failed)
    #expect(await rig.reason { try await rig.waitFor(login) } == .storeFailure)
  }

  @Test("If callbacks name no login, one waits at a time, and only its owner sees its id")
  func alone() async throws {
    let rig = try await rig()
    let login = try await rig.start()
    let own = await #expect(throws: RPCError.self) { _ = try await rig.start(account: "other") }
    #expect(own?.reason == .loginInProgress && own?.detail == login.login_id)
    _ = try await rig.call(LoginCancel.self, .init(login_id: login.login_id))
    let second = try await rig.start(account: "other")
    #expect(await rig.callBack(second, ["state": nil]).kind == .actionRequired)
    // The first one's address is the same, and the first one is over.
    #expect(try await rig.waitFor(second).state == .actionRequired)
  }

  @Test("A late callback without a login's name never belongs to an ended login, except the one it was accepted for")
  func late() async throws {
    let rig = try await rig { $0.authorizationTraits.exchangesCodes = false }
    let first = try await rig.start()
    #expect(await rig.callBack(first, ["state": nil]).kind == .completed)
    let again = try await rig.call(LoginHandleCallback.self, .init(url: first.callback(code: "work", ["state": nil])))
    #expect(again.handled && again.login_id == first.login_id)
    let other = LoginHandleCallback.Params(url: first.callback(code: "another", ["state": nil]))
    #expect(await rig.reason { try await rig.call(LoginHandleCallback.self, other) } == .invalidCallback)
    #expect(await rig.broker.handleCallback(url: other.url).kind == .refused)
  }

  @Test("Another application's answer sends the browser on, and the login waits")
  func bridge() async throws {
    let rig = try await rig()
    let login = try await rig.start()
    let taken = try await rig.call(LoginHandleCallback.self, .init(url: "bridge://cb?code=c&state=s"))
    #expect(taken.handled && taken.next_url == "https://id.example/next")
    #expect(await rig.broker.handleCallback(url: "bridge://cb?code=c") == .redirect(url: "https://id.example/next"))
    #expect(try await rig.waitFor(login).state == .pending)
    _ = try await rig.call(LoginCancel.self, .init(login_id: login.login_id))
    #expect(try await !rig.call(LoginHandleCallback.self, .init(url: "bridge://cb?code=c")).handled)
  }

  @Test("A login for the code only stores nothing and returns it to its caller")
  func bare() async throws {
    let rig = try await rig { $0.authorizationTraits.exchangesCodes = false }
    let login = try await rig.start()
    #expect(await rig.callBack(login, ["state": nil]).kind == .completed)
    let result = try await rig.waitFor(login)
    #expect(result.state == .completed && result.authorization_code == "work" && result.account == nil)
    #expect(rig.store.logins.isEmpty && rig.store.grant("work") == nil && rig.transport.count(.token) == 0)
    #expect(await rig.callBack(login, ["state": nil]).kind == .alreadyCompleted)
  }

  @Test("The result names the opened destination, even after a restart")
  func opened() async throws {
    let (store, clock) = (MemoryStore(), ManualClock())
    let first = try await rig(store: store, clock: clock)
    first.transport.answer(.token, TokenServer.rotating)
    let login = try await first.start()
    #expect(login.destinations.map(\.kind) == ["native", "browser", "manual"] && login.destinations[0].app == "app")
    let opened = LoginWait.Params(login_id: login.login_id, timeout: 0, opened: .init(kind: "browser"))
    #expect(try await first.call(LoginWait.self, opened).state == .pending)
    await #expect(throws: RPCError.self) {
      _ = try await first.call(LoginWait.self, .init(login_id: login.login_id, opened: .init(kind: "pigeon")))
    }
    let rig = try await rig(store: store, clock: clock)
    rig.transport.answer(.token, TokenServer.rotating)
    _ = await rig.callBack(login, ["state": nil])
    let result = try await rig.waitFor(login)
    #expect(result.destination_used == .init(kind: "browser") && result.fell_back == true)
  }

  @Test("The result names it even if the user was faster than the caller")
  func openedLate() async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.rotating)
    let login = try await rig.start()
    _ = await rig.callBack(login, ["state": nil])
    let opened = LoginWait.Opened(kind: "native", app: "app")
    let result = try await rig.call(LoginWait.self, .init(login_id: login.login_id, opened: opened))
    #expect(result.state == .completed && result.destination_used == opened && result.fell_back == false)
    #expect(rig.store.logins.isEmpty)
  }

  @Test("Sessions are asked for by the token; a refused one is refreshed once, and asked with once more")
  func sessions() async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.rotating)
    _ = await rig.callBack(try await rig.start(), ["state": nil])
    rig.transport.answer(.resource) { request in
      let isFirst = request.headers.contains { $0.value == "Bearer work-a1" }
      return reply("{}", status: isFirst ? 401 : 200)
    }
    let result = try await rig.call(AccountSessions.self, .init(account: "work"))
    #expect(result.sessions.map(\.session_id) == ["s1"])
    #expect(rig.transport.count(.resource) == 2 && rig.store.token("work")?.generation == 2)
    rig.transport.answer(.resource) { _ in reply("{}", status: 401) }
    #expect(await rig.reason { try await rig.call(AccountSessions.self, .init(account: "work")) } == .providerError)
    #expect(rig.transport.count(.resource) == 4)
    await rig.broker.trail.flush()
    let used = rig.audit.records.filter { $0.entry.method == AccountSessions.name }
    #expect(used.map(\.entry.action) == [.use, .use] && used.map(\.entry.result) == ["ok", "provider_error"])
    #expect(used.allSatisfy { $0.entry.account == "work" })
  }

  @Test("A logout sends the provider its parameters after the account is removed, even after a restart")
  func logout() async throws {
    let (store, clock) = (MemoryStore(), ManualClock())
    let rig = try await rig(store: store, clock: clock) { $0.logoutTraits.reaches = ["HERE", "EVERYWHERE"] }
    rig.transport.answer(.token, TokenServer.rotating)
    _ = await rig.callBack(try await rig.start(), ["state": nil])
    await #expect(throws: RPCError.self) {
      _ = try await rig.call(AccountLogout.self, .init(account: "work", where: "NOWHERE"))
    }
    #expect(store.grant("work") != nil)
    rig.transport.answer(.revocation, TokenServer.failing(.lost))
    let steps = try await rig.call(AccountLogout.self, .init(account: "work", where: "EVERYWHERE")).steps
    #expect(steps.map(\.result) == ["queued", "queued", "done"])
    let contexts = store.revocations.map { $0.context.filter { $0.key != "issued_by" } }
    #expect(contexts == Array(repeating: ["device": "device-1", "where": "EVERYWHERE"], count: 2))
    #expect(rig.transport.requests(.revocation).allSatisfy { $0.headers.contains(.init("X-Device", "device-1")) })
  }

  @Test("If two answers that request registration differ, neither is trusted; a proven one is accepted")
  func strangers() async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.rotating)
    func comes(_ query: String, _ login: LoginStart.Result) async -> CallbackOutcome.Kind {
      await rig.broker.handleCallback(url: "\(login.destinations[0].redirect_uri ?? "")?\(query)").kind
    }
    let first = try await rig.start()
    #expect(await comes("key=one", first) == .actionRequired)
    #expect(await comes("key=one", first) == .actionRequired, "a page that is shown again")
    #expect(await comes("key=two", first) == .failed)
    #expect(await rig.reason { try await rig.waitFor(first) } == .invalidCallback)
    let second = try await rig.start()
    #expect(await comes("key=evil", second) == .actionRequired)
    #expect(await comes("code=work", second) == .completed)
    #expect(try await rig.waitFor(second).state == .completed)
  }

  @Test("A forged answer does not fail a login that continues with the user's input")
  func strangerMeanwhile() async throws {
    let configuration = BrokerConfiguration.plain([SteppedProvider(settings: Server.first.discovered())])
    let rig = try await Rig.ofServers(configuration)
    let login = try await rig.start()
    let address = login.destinations[0].redirect_uri ?? ""
    #expect(await rig.broker.handleCallback(url: "\(address)?key=work").kind == .actionRequired)
    // The metadata are asked for again.
    try await rig.reload(configuration)
    rig.transport.hold(.discovery)
    let stranger = Task { await rig.broker.handleCallback(url: "\(address)?key=evil").kind }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    let call = Task {
      try await rig.call(LoginContinue.self, .init(login_id: login.login_id, attributes: ["a": .string("b")])).state
    }
    #expect(await eventually { await rig.broker.logins.table.exchangesInFlight == 1 })
    rig.transport.release(.discovery)
    #expect(await stranger.value == .alreadyCompleted)
    #expect(try await call.value == .completed)
    #expect(try await rig.waitFor(login).state == .completed)
  }

  @Test("A login's id is a valid command argument, even if the entropy begins with a hyphen")
  func hyphen() async throws {
    let rig = try await rig { $0.authorizationTraits.correlation = .state }
    for _ in 0..<200 {
      let login = try await rig.start()
      #expect(!login.login_id.hasPrefix("-"))
      _ = try await rig.call(LoginCancel.self, .init(login_id: login.login_id))
    }
  }
}
