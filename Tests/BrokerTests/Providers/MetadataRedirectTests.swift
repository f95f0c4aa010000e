import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Metadata and keys behind a redirect, or at a URL of their own.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct MetadataRedirectTests {
  private func rig(_ change: (inout ProviderSettings) -> Void = { _ in }) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(4000))
    var settings = ProviderSettings.discovered()
    change(&settings)
    return try await Rig(store: store, configuration: .plain([OAuthProvider(settings)]))
  }

  private func moved(_ location: String, status: Int = 301) -> HTTPResponse {
    HTTPResponse(status: status, headers: [.init("Location", location)])
  }

  @Test("a redirect within the origin is followed", arguments: [301, 302, 303, 307, 308])
  func sameOrigin(_ status: Int) async throws {
    let rig = try await rig()
    rig.transport.answer(.discovery) { request in
      request.url.path.hasPrefix("/index.php")
        ? reply(TokenServer.metadata)
        : HTTPResponse(status: status, headers: [.init("Location", "/index.php" + request.url.path)])
    }
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(rig.transport.count(.discovery) == 2)
  }

  @Test("another origin, a chain of more than three, and a redirect of the token endpoint are not followed")
  func refused() async throws {
    for location in ["https://elsewhere.example/x", "http://id.example/x", "https://id.example:8443/x", "/again"] {
      let rig = try await rig()
      rig.transport.answer(.discovery) { _ in HTTPResponse(status: 301, headers: [.init("Location", location)]) }
      let error = await #expect(throws: RPCError.self) { try await rig.token("work") }
      #expect(error?.reason == .providerMisconfigured && error?.message.contains("discovery_url") == true)
      #expect(rig.transport.count(.discovery) == (location == "/again" ? 4 : 1))
    }
    let rig = try await rig()
    rig.transport.answer(.token) { _ in HTTPResponse(status: 307, headers: [.init("Location", "/token2")]) }
    _ = await rig.reason { try await rig.token("work") }
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("discovery_url is used instead of the well-known URL, and the issuer is still compared")
  func discoveryURL() async throws {
    let rig = try await rig {
      $0.server.discoveryURL = URL(string: "https://id.example/policy/.well-known/openid-configuration")
    }
    #expect(try await rig.token("work").access_token == "work-a2")
    #expect(rig.transport.requests(.discovery).map(\.url.path) == ["/policy/.well-known/openid-configuration"])
    let other = try await self.rig {
      $0.server.discoveryURL = URL(string: "https://id.example/policy/.well-known/openid-configuration")
    }
    other.transport.answer(.discovery) { _ in
      reply(TokenServer.metadata.replacing("https://id.example\"", with: "https://other.example\""))
    }
    #expect(await other.reason { try await other.token("work") } == .providerMisconfigured)
  }
}
