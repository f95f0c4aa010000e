import BrokerAPI
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Requests that begin or test a login: how many of one user are sent to a provider, and which requests wait for them.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct LoginStartLimitTests {
  private func rig(pushes: Bool = false) async throws -> Rig {
    let rules = [1001, 1002].map { (uid: UInt32) in
      Rule(name: "\(uid)", uid: uid, gid: nil, accounts: ["*"], access: [.login])
    }
    let provider = OAuthProvider(
      .plain {
        $0.server.endpoints[.deviceAuthorization] = "https://id.example/device_authorization"
        guard pushes else { return }
        $0.authorization.par = .always
        $0.server.endpoints[.pushedAuthorizationRequest] = "https://id.example/par"
      })
    let rig = try await Rig(configuration: .plain([provider], rules: rules))
    rig.transport.answer(.par) { _ in reply(#"{"request_uri":"urn:example:1","expires_in":60}"#, status: 201) }
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

  private func start(_ rig: Rig, _ uid: UInt32, _ account: String, at place: String) -> Task<ErrorReason?, Never> {
    let params = LoginStart.Params(provider: "example", account: account, destinations: [place])
    return Task { await rig.reason { try await rig.call(LoginStart.self, params, as: .user(uid)) } }
  }

  @Test(
    "starts of logins are counted before they are saved, and those of one user delay no other",
    arguments: [false, true])
  func starts(pushes: Bool) async throws {
    let rig = try await rig(pushes: pushes)
    let place = pushes ? "browser" : "device"
    func held() -> Int { pushes ? rig.transport.held(.par) : rig.transport.held(.device) }
    rig.transport.hold(.device)
    rig.transport.hold(.par)
    let crowd = (0..<Limit.loginStartsPerHolder + 4).map { start(rig, 1001, "account-\($0)", at: place) }
    #expect(await eventually { held() == Limit.loginStartsPerHolder })
    let others = [start(rig, 1002, "mail", at: place), start(rig, 0, "root", at: place)]
    #expect(await eventually { held() == Limit.loginStartsPerHolder + 2 })
    rig.transport.release(.device)
    rig.transport.release(.par)
    for task in crowd + others { #expect(await task.value == nil) }
    #expect(rig.store.logins.count == crowd.count + others.count)
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
