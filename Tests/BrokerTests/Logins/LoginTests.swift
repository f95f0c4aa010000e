import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct LoginTests {
  @Test func aLoginIsOnDiskBeforeItsAddressIsHandedOut() async throws {
    let rig = try await Rig()
    rig.store.set(.fails)
    #expect(await rig.reason { try await rig.start() } == .storeFailure)
    rig.store.set(.works)
    let login = try await rig.start()
    let saved = try #require(rig.store.logins.first)
    #expect(rig.store.logins.count == 1 && saved.id.rawValue == login.login_id)
    #expect(login.query["state"] == saved.state.exposed && saved.uid == 0)
    #expect(login.query["code_challenge_method"] == "S256")
    #expect(saved.redirectURI == "http://127.0.0.1:8400/callback")
  }

  @Test("10. state and nonce have 128 bits and more, fresh for each login")
  func eachLoginHasSecretsOfItsOwn() async throws {
    let rig = try await Rig(configuration: .plain([OAuthProvider(.oidc())]))
    let first = try await rig.start()
    let second = try await rig.start()
    for name in ["state", "nonce"] {
      let values = try [first, second].map { try #require($0.query[name]) }
      // In base64url 22 characters bear 128 bits.
      #expect(values[0] != values[1] && values.allSatisfy { $0.utf8.count >= 22 })
    }
    #expect(first.query["state"] != first.query["nonce"])
    #expect(first.query["code_challenge"] != second.query["code_challenge"])
    #expect(first.login_id != second.login_id)
  }

  @Test(
    "A caller may ask for a newer sign-in than the provider's section wants, and not for an older one",
    arguments: [("60", "60"), ("0", "0"), ("86400", "300"), ("-1", nil), ("soon", nil)] as [(String, String?)])
  func maxAge(_ asked: String, _ sent: String?) async throws {
    let rig = try await Rig(configuration: .plain([OAuthProvider(.oidc { $0.authorization.maxAge = 300 })]))
    let params = LoginStart.Params(provider: "example", account: "work", params: ["max_age": asked])
    guard let sent else {
      let error = await #expect(throws: RPCError.self) { _ = try await rig.call(LoginStart.self, params) }
      #expect(error?.code == -32602)
      return
    }
    let login = try await rig.call(LoginStart.self, params)
    #expect(login.query["max_age"] == sent && rig.store.logins.first?.maxAge == Int64(sent))
  }

  @Test func waitingEndsWithTheLoginOrWithItsTime() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    let impatient = Task { try await rig.waitFor(login, timeout: 5) }
    #expect(await eventually { rig.clock.sleepers > 0 })
    rig.clock.advance(.seconds(5))
    #expect(try await impatient.value.state == .pending)
    let patient = Task { try await rig.waitFor(login, timeout: 60) }
    await settle()
    _ = await rig.callBack(login)
    let ended = try await patient.value
    #expect(ended.state == .completed && ended.account?.account == "work")
    #expect(try await rig.waitFor(login).state == .completed)
  }

  @Test func aCancelledLoginIsOverForEverybody() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    let waiter = Task { await rig.reason { try await rig.waitFor(login, timeout: 60) } }
    await settle()
    #expect(try await rig.call(LoginCancel.self, .init(login_id: login.login_id)).cancelled)
    #expect(await waiter.value == .loginCancelled)
    #expect(try await !rig.call(LoginCancel.self, .init(login_id: login.login_id)).cancelled)
    #expect(rig.store.logins.isEmpty)
    #expect(await rig.callBack(login).kind == .refused)
    #expect(rig.transport.count(.token) == 0)
  }

  @Test func anExpiredLoginEndsByItself() async throws {
    let rig = try await Rig()
    let login = try await rig.start()
    rig.clock.advance(.seconds(601))
    _ = await rig.broker.tick()
    #expect(await eventually { rig.store.logins.isEmpty })
    #expect(await rig.reason { try await rig.waitFor(login) } == .loginExpired)
  }

  @Test func aLoginOutlivesARestart() async throws {
    let before = try await Rig()
    let login = try await before.start()
    let after = try await Rig(clock: before.clock, store: before.store)
    #expect(try await after.call(LoginList.self, NoParams()).logins.map(\.login_id) == [login.login_id])
    #expect(await after.callBack(login).isCompleted("work"))
    #expect(try await after.token("work").access_token == "work-a1")
    #expect(await before.broker.previousCallbackPort == 8400)
    let verifier = try #require(after.transport.requests(.token).first?.form["code_verifier"])
    #expect(CodeVerifier(rawValue: Secret(verifier))?.challenge == login.query["code_challenge"])
  }

  @Test func aLoginBelongsToTheUserWhoStartedIt() async throws {
    let rules = [1000, 1001].map {
      Rule(name: "r", uid: $0, gid: nil, accounts: ["*"], access: [.login])
    }
    let rig = try await Rig(configuration: .plain(rules: rules))
    let login = try await rig.start(as: .user(1000))
    for method in ["wait", "cancel"] {
      let reason = await rig.reason {
        if method == "wait" {
          _ = try await rig.call(LoginWait.self, .init(login_id: login.login_id, timeout: 0), as: .user(1001))
        } else {
          _ = try await rig.call(LoginCancel.self, .init(login_id: login.login_id), as: .user(1001))
        }
      }
      #expect(reason == .unknownLogin, "login.\(method)")
    }
    #expect(try await rig.call(LoginList.self, NoParams(), as: .user(1001)).logins.isEmpty)
    #expect(try await rig.call(LoginList.self, NoParams(), as: .user(1000)).logins.count == 1)
    #expect(try await rig.call(LoginList.self, NoParams(), as: .root).logins.count == 1)
  }

  @Test func oneUserCannotFillTheTableOfPendingLogins() async throws {
    let rules = [1000, 1001].map { Rule(name: "r", uid: $0, gid: nil, accounts: ["*"], access: [.login]) }
    let rig = try await Rig(configuration: .plain(rules: rules))
    for _ in 0..<Limit.pendingLoginsPerHolder { _ = try await rig.start(as: .user(1000)) }
    #expect(await rig.reason { try await rig.start(as: .user(1000)) } == .overloaded)
    let other = try await rig.start(as: .user(1001))
    #expect(await rig.broker.handleCallback(url: other.callback(), from: .user(1001)).kind == .completed)
  }

  @Test("A pending login of a subordinate user id counts for its owner after a restart") func subordinateUsers()
    async throws
  {
    let (store, clock) = (MemoryStore(), ManualClock(holder: { .user($0 >= 100_000 ? 1000 : $0) }))
    let rules = [1000, 1001, 100_000].map { Rule(name: "r", uid: $0, gid: nil, accounts: ["*"], access: [.login]) }
    let rig = try await Rig(clock: clock, store: store, configuration: .plain(rules: rules))
    for _ in 0..<Limit.pendingLoginsPerHolder { _ = try await rig.start(as: .user(100_000)) }
    let restarted = try await Rig(clock: clock, store: store, configuration: .plain(rules: rules))
    #expect(await restarted.reason { try await restarted.start(as: .user(1000)) } == .overloaded)
    _ = try await restarted.start(as: .user(1001))
  }

  @Test("The record of a login by a subordinate user id counts for its owner") func subordinateRecords() async throws {
    let clock = ManualClock(holder: { .user($0 >= 100_000 ? 1000 : $0) })
    let rules = [Rule(name: "r", uid: 100_000, gid: nil, accounts: ["*"], access: [.login])]
    let rig = try await Rig(clock: clock, configuration: .plain(rules: rules))
    let login = try await rig.start(as: .user(100_000))
    #expect(await rig.broker.handleCallback(url: login.callback(), from: .user(100_000)).kind == .completed)
    await rig.broker.trail.flush()
    let record = try #require(rig.audit.records.last { $0.entry.method == EventType.loginCompleted.rawValue })
    #expect(record.entry.who.uid == 100_000 && record.refuser?.holder == .user(1000))
  }

  @Test func theLimitHoldsForLoginsThatStartAtOnce() async throws {
    let rig = try await Rig(configuration: .plain([OAuthProvider(.discovered())]))
    rig.transport.hold(.discovery)
    let count = Limit.pendingLoginsPerHolder + 40
    let starts = (0..<count).map { _ in Task { await rig.reason { try await rig.start() } } }
    #expect(await eventually { rig.transport.held(.discovery) == 1 })
    await settle()
    rig.transport.release(.discovery)
    var refused = 0
    for start in starts where await start.value == .overloaded { refused += 1 }
    #expect(refused == 40 && rig.store.logins.count == Limit.pendingLoginsPerHolder)
    #expect(rig.transport.count(.discovery) == 1)
  }

  @Test func anAccountStaysAtItsProvider() async throws {
    let two = [OAuthProvider(.plain()), OAuthProvider(.plain("other"))]
    let rig = try await Rig(configuration: .plain(two))
    _ = await rig.callBack(try await rig.start())
    await #expect(throws: RPCError.self) { try await rig.start(provider: "other") }
    #expect(await rig.reason { try await rig.start(provider: "nobody", account: "new") } == .unknownProvider)
  }

  @Test("Changes of a login are on disk before the login is removed")
  func writtenBeforeRemoved() async throws {
    for isCancelled in [true, false] {
      let rig = try await Rig()
      let login = try await rig.start()
      rig.store.set(.hangs) { $0.contains { if case .putLogin = $0 { true } else { false } } }
      let told = Task {
        try? await rig.call(LoginWait.self, .init(login_id: login.login_id, opened: .init(kind: "browser")))
      }
      #expect(await eventually { rig.store.hanging == 1 })
      let end = Task {
        if isCancelled {
          _ = try await rig.call(LoginCancel.self, .init(login_id: login.login_id))
        } else {
          _ = await rig.callBack(login)
        }
      }
      await settle()
      #expect(rig.transport.count(.token) == 0, "a code is sent while its login may come back to the disk")
      rig.store.set(.works)
      try await end.value
      _ = await told.value
      #expect(rig.store.logins.isEmpty)
    }
  }
}
