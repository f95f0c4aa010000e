import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Programs of one user that start the same login together: one login, which ends for all.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct JoinedLoginTests {
  private func params(_ account: String = "work", _ change: (inout LoginStart.Params) -> Void = { _ in })
    -> LoginStart.Params
  {
    var params = LoginStart.Params(provider: "example", account: account, join: true)
    change(&params)
    return params
  }

  @Test("requests during the start, and after it, get the same login", arguments: [true, false])
  func oneLogin(_ isTogether: Bool) async throws {
    let rig = try await Rig(configuration: .plain([OAuthProvider(.discovered())]))
    let params = params()
    if isTogether { rig.transport.hold(.discovery) }
    let tasks = (0..<20).map { _ in Task { try await rig.call(LoginStart.self, params) } }
    await settle()
    if isTogether { rig.transport.release(.discovery) }
    var results: [LoginStart.Result] = []
    for task in tasks { results.append(try await task.value) }
    #expect(Set(results.map(\.login_id)).count == 1 && rig.store.logins.count == 1)
    #expect(results.filter { $0.joined == nil }.count == 1)
    let waiters = results.map { login in Task { try await rig.waitFor(login, timeout: 60).account?.account } }
    await settle()
    #expect(await rig.callBack(results[0]).kind == .completed)
    for waiter in waiters { #expect(try await waiter.value == "work") }
  }

  enum End: CaseIterable { case declined, expired, cancelled }

  @Test("its end is the end for all", arguments: End.allCases)
  func end(_ end: End) async throws {
    let rig = try await Rig()
    let (first, second) = (
      try await rig.call(LoginStart.self, params()), try await rig.call(LoginStart.self, params())
    )
    let waiters = [first, second].map { login in
      Task { await rig.reason { try await rig.waitFor(login, timeout: 900) } }
    }
    await settle()
    switch end {
    case .declined: _ = await rig.callBack(first, ["code": nil, "error": "access_denied"])
    case .expired:
      rig.clock.advance(.seconds(601))
      _ = await rig.broker.tick()
    case .cancelled: _ = try await rig.call(LoginCancel.self, .init(login_id: second.login_id))
    }
    let reason: ErrorReason =
      switch end {
      case .declined: .loginDenied
      case .expired: .loginExpired
      case .cancelled: .loginCancelled
      }
    for waiter in waiters { #expect(await waiter.value == reason) }
    let next = try await rig.call(LoginStart.self, params())
    #expect(next.joined == nil && next.login_id != first.login_id)
  }

  @Test(
    "another account, scope, resource or destination, or a code, is another login",
    arguments: [
      { $0.account = "home" }, { $0.scopes = ["more"] }, { $0.resource = "https://api.example/" },
      { $0.destinations = ["manual"] }, { $0.exchange = false }, { $0.join = nil }, { $0.login_hint = "ada" },
    ] as [@Sendable (inout LoginStart.Params) -> Void])
  func another(_ change: @escaping @Sendable (inout LoginStart.Params) -> Void) async throws {
    let rig = try await Rig()
    let first = try await rig.call(LoginStart.self, params())
    for _ in 0..<(params("work", change).exchange == false ? 2 : 1) {
      let other = try await rig.call(LoginStart.self, params("work", change))
      #expect(other.joined == nil && other.login_id != first.login_id)
    }
  }

  @Test("another user's login is not joined, not even by root")
  func users() async throws {
    let rules = [1000, 1001].map { uid in Rule(name: "r", who: .init(uid: uid), accounts: ["*"], access: [.login]) }
    let rig = try await Rig(configuration: .plain(rules: rules))
    var ids: [String] = []
    for caller in [Caller.user(1000), .user(1001), .root] {
      ids.append(try await rig.call(LoginStart.self, params(), as: caller).login_id)
    }
    #expect(Set(ids).count == 3)
    #expect(try await rig.call(LoginStart.self, params(), as: .user(1001)).login_id == ids[1])
  }

  @Test("a login is joined for 30 seconds")
  func window() async throws {
    let rig = try await Rig()
    let first = try await rig.call(LoginStart.self, params())
    rig.clock.advance(.seconds(29))
    #expect(try await rig.call(LoginStart.self, params()).login_id == first.login_id)
    rig.clock.advance(.seconds(2))
    #expect(try await rig.call(LoginStart.self, params()).login_id != first.login_id)
  }

  @Test("a start that fails fails for all, and the next request starts again")
  func failure() async throws {
    let rig = try await Rig()
    rig.store.set(.fails)
    let params = params()
    let tasks = (0..<5).map { _ in Task { await rig.reason { try await rig.call(LoginStart.self, params) } } }
    for task in tasks { #expect(await task.value == .storeFailure) }
    rig.store.set(.works)
    #expect(try await rig.call(LoginStart.self, params).joined == nil)
  }

  @Test("starts that others may join are limited; further ones are separate")
  func limit() async throws {
    let rig = try await Rig(configuration: .plain([OAuthProvider(.discovered())]))
    rig.transport.hold(.discovery)
    let tasks = (0..<LoginStarting.most + 20).map { number in
      Task { try? await rig.call(LoginStart.self, params("account-\(number)")) }
    }
    await settle()
    #expect(await rig.broker.logins.table.starting.count <= LoginStarting.most)
    rig.transport.release(.discovery)
    for task in tasks { _ = await task.value }
    #expect(await rig.broker.logins.table.starting.isEmpty)
  }
}
