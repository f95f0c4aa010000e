import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct ControlTests {
  @Test(
    arguments: [
      ("fault", ["kind": "nonsense"]), ("fault", ["kind": "status", "endpoint": "nowhere"]),
      ("fault", ["kind": "status", "times": 0]), ("fault", ["kind": "status", "colour": "red"]),
      ("fault", ["kind": "status", "code": 99]), ("fault", ["kind": "missing_iss", "endpoint": "token"]),
      ("fault", ["kind": "slow_body", "bytes_per_second": 0]), ("fault", ["kind": "delay", "when": "later"]),
      ("fault", []), ("settings", ["access_ttl": -1]), ("settings", ["ttl": 1]), ("settings", ["rotation": "weekly"]),
      ("revoke_user", ["user": "mallory"]),
    ] as [(String, DemoServer.JSON)])
  func aControlRequestThatMakesNoSenseIsRefused(_ command: String, _ body: DemoServer.JSON) async throws {
    try await withServer { server, client in
      let answer = try #require(await client.send(.POST, "/_control/\(command)", json: body))
      #expect(answer.status == 400)
      #expect(answer.json?["error"]?.string?.isEmpty == false)
      #expect(server.stats().faultsSet == 0)
    }
  }

  @Test func aWebPageCannotUseTheControlAPI() async throws {
    try await withServer { _, client in
      let headers = ["Origin": "http://evil.example"]
      #expect(await client.send(.POST, "/_control/reset", json: [:], headers: headers)?.status == 403)
    }
  }

  @Test func aRequestThatIsTooLargeIsRefused() async throws {
    try await withServer { _, client in
      let answer = await client.refresh(String(repeating: "x", count: 100_000))
      #expect(answer == nil || answer?.status == 413)
    }
  }

  @Test func anUnsupportedAddressIsRefused() async throws {
    var options = DemoServer.Options()
    options.host = "0.0.0.0"
    await #expect(throws: DemoServer.StartError.self) { try await DemoServer.start(options) }
  }

  @Test func everySettingGoesInAsItComesOut() async throws {
    try await withServer { _, client in
      let settings = try #require(await client.send(.GET, "/_control/settings")?.json)
      #expect(await client.send(.POST, "/_control/settings", json: settings)?.json == settings)
      guard case .object(let members) = settings else { return }
      #expect(members.count > 50)
      for name in members.keys {
        #expect(await client.send(.POST, "/_control/settings", json: [name: [1]])?.status == 400, "\(name)")
      }
    }
  }
}
