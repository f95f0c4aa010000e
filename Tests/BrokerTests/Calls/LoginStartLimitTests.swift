import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Requests that begin or test a login: how many of one user are sent to a provider, and which requests wait for them.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct LoginStartLimitTests {
  private func rig() async throws -> Rig {
    let rules = [1001, 1002].map { (uid: UInt32) in
      Rule(name: "\(uid)", uid: uid, gid: nil, accounts: ["*"], access: [.login])
    }
    let provider = OAuthProvider(
      .plain { $0.server.endpoints[.deviceAuthorization] = "https://id.example/device_authorization" })
    let rig = try await Rig(configuration: .plain([provider], rules: rules))
    rig.transport.answer(.device) { _ in
      reply(
        """
        {"device_code":"d","user_code":"AB-CD","verification_uri":"https://id.example/device","expires_in":1800}
        """)
    }
    return rig
  }

  private func probe(_ rig: Rig, _ uid: UInt32) -> Task<ErrorReason?, Never> {
    let params = LoginProbe.Params(provider: "example", account: "work")
    return Task { await rig.reason { try await rig.call(LoginProbe.self, params, as: .user(uid)) } }
  }

  @Test("probes of one user delay neither probes of others nor a code exchange")
  func share() async throws {
    let rig = try await rig()
    let login = try await rig.start(as: .user(1002))
    rig.transport.hold(.discovery)
    let crowd = (0..<200).map { _ in probe(rig, 1001) }
    #expect(await eventually { rig.transport.held(.discovery) == Limit.loginStartsPerHolder })
    let others = [probe(rig, 1002), probe(rig, 0)]
    #expect(await eventually { rig.transport.held(.discovery) == Limit.loginStartsPerHolder + 2 })
    let outcome = await rig.broker.handleCallback(url: login.callback(), from: .user(1002))
    #expect(outcome.kind == .completed)
    #expect(rig.transport.pools(.token).map(\.use) == [.exchanges])
    #expect(Set(rig.transport.pools(.discovery).map(\.use)) == [.logins])
    rig.transport.release(.discovery)
    for task in crowd + others { #expect(await task.value == nil) }
  }

  @Test("starts of logins are counted before they are saved")
  func starts() async throws {
    let rig = try await rig()
    rig.transport.hold(.device)
    let tasks = (0..<Limit.loginStartsPerHolder + 4).map { number in
      Task {
        await rig.reason {
          try await rig.call(
            LoginStart.self, .init(provider: "example", account: "account-\(number)", destinations: ["device"]),
            as: .user(1001))
        }
      }
    }
    #expect(await eventually { rig.transport.held(.device) == Limit.loginStartsPerHolder })
    rig.transport.release(.device)
    for task in tasks { #expect(await task.value == nil) }
    #expect(rig.store.logins.count == tasks.count)
  }

  @Test("a caller that hangs up while it waits for a slot sends nothing")
  func gone() async throws {
    let rig = try await rig()
    rig.transport.hold(.discovery)
    let first = (0..<Limit.loginStartsPerHolder).map { _ in probe(rig, 1001) }
    #expect(await eventually { rig.transport.held(.discovery) == Limit.loginStartsPerHolder })
    let session = FakeSession(.user(1001))
    let params = LoginProbe.Params(provider: "example", account: "work")
    let waiting = Task { await rig.reason { try await rig.call(LoginProbe.self, params, on: session) } }
    await settle()
    session.close()
    rig.transport.release(.discovery)
    #expect(await waiting.value != nil)
    for task in first { #expect(await task.value == nil) }
    #expect(rig.transport.count(.discovery) == Limit.loginStartsPerHolder)
  }

  @Test("a login that sends nothing takes no slot")
  func withoutRequest() async throws {
    let rig = try await rig()
    rig.transport.hold(.discovery)
    let crowd = (0..<Limit.loginStartsPerHolder).map { _ in probe(rig, 1001) }
    #expect(await eventually { rig.transport.held(.discovery) == Limit.loginStartsPerHolder })
    _ = try await rig.start(as: .user(1001))
    rig.transport.release(.discovery)
    for task in crowd { #expect(await task.value == nil) }
  }

  @Test("a request that gets no slot in time is refused, and sends nothing")
  func late() async throws {
    let rig = try await rig()
    rig.transport.hold(.discovery)
    let first = (0..<Limit.loginStartsPerHolder).map { _ in probe(rig, 1001) }
    #expect(await eventually { rig.transport.held(.discovery) == Limit.loginStartsPerHolder })
    let next = probe(rig, 1001)
    await settle()
    rig.clock.advance(Limit.loginStartWait)
    #expect(await next.value == .overloaded)
    rig.transport.release(.discovery)
    for task in first { #expect(await task.value == nil) }
    #expect(rig.transport.count(.discovery) == Limit.loginStartsPerHolder)
  }
}
