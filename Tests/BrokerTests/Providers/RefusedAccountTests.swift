import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// One account's refresh is refused with a code that usually concerns the client, as Atlassian does for a refresh token
/// that is no longer valid.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct RefusedAccountTests {
  private static let codes = [
    "unauthorized_client", "invalid_client", "invalid_scope", "unsupported_grant_type", "invalid_target",
  ]

  /// Refuses the refresh tokens of these accounts, and returns new ones to all others.
  private static func refusing(_ names: [String], _ code: String = "unauthorized_client") -> ScriptedTransport.Answer {
    { request in
      let account = request.form["refresh_token"]?.components(separatedBy: "-r").first ?? ""
      guard names.contains(account) else { return TokenServer.granted(request, lifetime: 3600) }
      return reply(#"{"error":"\#(code)","error_description":"refresh_token is invalid"}"#, status: 403)
    }
  }

  private func rig(_ names: [String], refusing: [String], code: String = "unauthorized_client") async throws -> Rig {
    let store = MemoryStore()
    for name in names { try await store.signIn(name, age: .seconds(4000)) }
    let rig = try await Rig(store: store, configuration: .plain { $0.jitter = 0 }, isAsked: false)
    rig.transport.answer(.token, Self.refusing(refusing, code))
    return rig
  }

  private func requests(_ rig: Rig, _ account: String) -> Int {
    rig.transport.requests(.token).count { $0.form["refresh_token"]?.hasPrefix(account + "-r") == true }
  }

  @Test("other accounts of the provider are refreshed", arguments: codes)
  func others(_ code: String) async throws {
    let rig = try await rig(["alice", "bob"], refusing: ["alice"], code: code)
    #expect(await rig.reason { try await rig.token("alice") } == .providerMisconfigured)
    #expect(try await rig.token("bob").access_token == "bob-a2")
    #expect(try await rig.view("alice").state == .degraded)
    #expect(try await rig.view("bob").state == .ok)
    let status = try await rig.call(BrokerStatus.self, NoParams())
    #expect(status.provider_conditions?.first?.condition == "ok")
  }

  @Test("three refusals over ten minutes, while others succeed, ask for a login and keep the refresh token")
  func loginRequired() async throws {
    let rig = try await rig(["alice", "bob"], refusing: ["alice"])
    #expect(await rig.reason { try await rig.token("alice") } == .providerMisconfigured)
    for _ in 0..<2 {
      _ = try await rig.call(AccountRefresh.self, .init(account: "bob"))
      let before = requests(rig, "alice")
      rig.clock.advance(.seconds(301))
      _ = await rig.broker.tick()
      #expect(await eventually { requests(rig, "alice") == before + 1 })
      #expect(await eventually { await rig.broker.engine.leases.inFlight == 0 })
    }
    #expect(await eventually { (try? await rig.view("alice").state) == .loginRequired })
    let error = await #expect(throws: RPCError.self) { try await rig.token("alice") }
    #expect(error?.reason == .loginRequired && error?.hint?.contains("grantctl login example alice") == true)
    #expect(error?.message.contains("refuses this account's grant with unauthorized_client") == true)
    #expect(rig.store.grant("alice")?.refreshToken == Secret("alice-r1"))
    rig.clock.advance(.seconds(3600))
    _ = await rig.broker.tick()
    await settle()
    #expect(requests(rig, "alice") == 3)
    rig.transport.answer(.token, Self.refusing([]))
    rig.clock.advance(.seconds(5 * 3600))
    _ = await rig.broker.tick()
    #expect(await eventually { (try? await rig.view("alice").state) == .ok })
  }

  @Test("an account of a provider without others is not said to need a login")
  func single() async throws {
    let rig = try await rig(["alice"], refusing: ["alice"])
    for _ in 0..<5 {
      #expect(await rig.reason { try await rig.token("alice") } == .providerMisconfigured)
      rig.clock.advance(.seconds(301))
      _ = await rig.broker.tick()
      #expect(await eventually { await rig.broker.engine.leases.inFlight == 0 })
    }
    #expect(try await rig.view("alice").state == .actionRequired)
  }

  @Test("three refused accounts let refreshes rest that no caller waits for, and a caller's account is tried")
  func suspectedClient() async throws {
    let names = ["alice", "bob", "carol", "dave"]
    let rig = try await rig(names, refusing: ["alice", "bob", "carol"])
    for name in ["alice", "bob", "carol"] {
      #expect(await rig.reason { try await rig.token(name) } == .providerMisconfigured)
    }
    var status = try await rig.call(BrokerStatus.self, NoParams())
    #expect(status.provider_conditions?.first?.condition == "suspended")
    #expect(try await rig.token("dave").access_token == "dave-a2")
    status = try await rig.call(BrokerStatus.self, NoParams())
    #expect(status.provider_conditions?.first?.condition == "ok")
  }
}
