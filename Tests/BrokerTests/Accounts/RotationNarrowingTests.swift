import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Requests for fewer scopes or another resource at a provider that rotates refresh tokens: the refresh token is not used
/// for them, since most servers bind the new one to the narrowed scope.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct RotationNarrowingTests {
  private static let scopes = ["read", "write"]

  /// A server that binds each new refresh token to the scope of its request, against RFC 6749 §6, and exchanges tokens.
  private static let binding: ScriptedTransport.Answer = { request in
    let scope: String? = request.form["scope"]?.replacing("+", with: " ")
    if request.form["grant_type"] == TokenExchangeRequest.grantType { return exchanged(scope ?? "") }
    return refreshed(scope ?? "read write")
  }

  private static func exchanged(_ scope: String) -> HTTPResponse {
    reply(
      """
      {"access_token":"exchanged","issued_token_type":"urn:ietf:params:oauth:token-type:access_token",\
      "token_type":"Bearer","expires_in":3600,"scope":"\(scope)"}
      """)
  }

  private static func refreshed(_ scope: String) -> HTTPResponse {
    reply(
      """
      {"access_token":"fresh","token_type":"Bearer","expires_in":3600,"refresh_token":"bound-to-\(scope)",\
      "scope":"\(scope)"}
      """)
  }

  private static let cap = Rule(
    name: "reader", who: .init(uid: 1000), accounts: ["work"], access: [.use], scopes: ["read"])

  private func rig(
    exchanges: Bool = false, age: Duration = .zero, _ change: @escaping (inout ProviderSettings) -> Void = { _ in }
  ) async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work", age: age, scopes: Self.scopes)
    var settings = exchanges ? ProviderSettings.discovered() : .plain()
    change(&settings)
    let rig = try await Rig(
      store: store, configuration: .plain([OAuthProvider(settings)], rules: [Self.cap]) { $0.jitter = 0 })
    if exchanges {
      let head = String(TokenServer.metadata.dropLast())
      rig.transport.answer(.discovery) { _ in
        reply("\(head),\"grant_types_supported\":[\"refresh_token\",\"\(TokenExchangeRequest.grantType)\"]}")
      }
    }
    rig.transport.answer(.token, Self.binding)
    return rig
  }

  private func get(
    _ rig: Rig, _ scopes: [String]? = nil, resource: String? = nil, as caller: Caller = .root
  ) async throws -> TokenGet.Result {
    try await rig.call(TokenGet.self, .init(account: "work", scopes: scopes, resource: resource), as: caller)
  }

  private func scopes(_ rig: Rig) -> [String?] {
    rig.transport.requests(.token).filter { $0.form["grant_type"] == "refresh_token" }.map { $0.form["scope"] }
  }

  @Test("a caller that asks for fewer scopes gets the account's token, and no refresh asks for them")
  func wholeToken() async throws {
    let rig = try await rig()
    let token = try await get(rig, ["read"])
    #expect(token.access_token == "work-a1" && token.scope == Self.scopes)
    #expect(rig.transport.count(.token) == 0)
    rig.clock.advance(.seconds(3600))
    #expect(try await get(rig, ["read"]).access_token == "fresh")
    #expect(scopes(rig) == [nil])
    #expect(rig.store.grant("work")?.refreshToken == Secret("bound-to-read write"))
    #expect(rig.store.grant("work")?.grantedScopes == Self.scopes)
  }

  @Test("a caller whose rule forbids the account's token gets scope_not_granted")
  func capped() async throws {
    let rig = try await rig()
    let error = await #expect(throws: RPCError.self) { try await get(rig, as: .user(1000)) }
    #expect(error?.reason == .scopeNotGranted && error?.message.contains("write") == true)
    #expect(rig.transport.count(.token) == 0)
  }

  @Test("another resource is refused, without a request")
  func resource() async throws {
    let rig = try await rig()
    let error = await #expect(throws: RPCError.self) { try await get(rig, resource: "https://files.example/") }
    #expect(error?.reason == .scopeNotGranted && error?.message.contains("rotates refresh tokens") == true)
    #expect(rig.transport.count(.token) == 0)
  }

  @Test("a caller that asked before the metadata were known is refused after one refresh of the account's token")
  func learnedLater() async throws {
    for resource in ["https://files.example/", nil] {
      let rig = try await rig(exchanges: true, age: .seconds(3700))
      rig.transport.answer(.discovery) { _ in reply(TokenServer.metadata) }
      let scopes = resource == nil ? ["read"] : nil
      if resource == nil {
        #expect(try await get(rig, scopes).access_token == "fresh")
      } else {
        let error = await #expect(throws: RPCError.self) { try await get(rig, scopes, resource: resource) }
        #expect(error?.reason == .scopeNotGranted)
      }
      #expect(self.scopes(rig) == [nil])
    }
  }

  @Test("a token that had expired on arrival cannot be exchanged: it is not refreshed again and again")
  func stillborn() async throws {
    let rig = try await rig(exchanges: true, age: .seconds(3700))
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"old","token_type":"Bearer","expires_in":0,"refresh_token":"next"}"#)
    }
    for resource in ["https://files.example/", nil] {
      let before = rig.transport.count(.token)
      let reason = await rig.reason {
        try await get(rig, resource == nil ? ["read"] : nil, resource: resource)
      }
      #expect(reason == .providerError || reason == .temporarilyUnavailable)
      #expect(rig.transport.count(.token) - before <= 2)
    }
  }

  @Test("an outage of the exchange sends no refresh while the account's own token is valid")
  func outageOfExchange() async throws {
    let rig = try await rig(exchanges: true)
    rig.transport.answer(.token, TokenServer.failing(.lost))
    for _ in 0..<20 {
      _ = await rig.reason { try await get(rig, resource: "https://files.example/") }
      rig.clock.advance(.seconds(6))
    }
    #expect(scopes(rig).isEmpty)
  }

  @Test("without rotation, and with settings that vouch for the server, a refresh asks for them")
  func refresh() async throws {
    for change: (inout ProviderSettings) -> Void in [
      { $0.refresh.rotation = .none }, { $0.refresh.narrowing = .verified },
    ] {
      let rig = try await rig(change)
      #expect(try await get(rig, ["read"]).access_token == "fresh")
      #expect(scopes(rig) == ["read"])
    }
  }

  @Test("a server with token exchange is asked for an exchange, and the refresh token stays")
  func exchange() async throws {
    let rig = try await rig(exchanges: true)
    #expect(try await get(rig, ["read"]).access_token == "exchanged")
    #expect(try await get(rig, as: .user(1000)).access_token == "exchanged")
    #expect(try await get(rig).access_token == "work-a1")
    let form = rig.transport.requests(.token).first?.form ?? [:]
    #expect(form["subject_token"] == "work-a1" && form["scope"] == "read" && form["refresh_token"] == nil)
    #expect(rig.transport.count(.token) == 1)
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1") && rig.store.intent("work") == nil)
    #expect(try await get(rig, resource: "https://files.example/").access_token == "exchanged")
    rig.clock.advance(.seconds(3600))
    #expect(try await get(rig).access_token == "fresh")
    #expect(scopes(rig) == [nil])
  }

  @Test("an expired token is refreshed before it is exchanged")
  func expired() async throws {
    let rig = try await rig(exchanges: true, age: .seconds(3590))
    #expect(try await get(rig, ["read"]).access_token == "exchanged")
    #expect(rig.transport.requests(.token).map { $0.form["subject_token"] } == [nil, "fresh"])
  }

  @Test("a server that refuses the exchange leaves the account's token")
  func refusedExchange() async throws {
    let rig = try await rig(exchanges: true)
    rig.transport.answer(.token, TokenServer.refused("unauthorized_client"))
    for _ in 0..<3 { #expect(try await get(rig, ["read"]).access_token == "work-a1") }
    #expect(await rig.reason { try await get(rig, as: .user(1000)) } == .scopeNotGranted)
    #expect(await rig.reason { try await get(rig, resource: "https://files.example/") } == .scopeNotGranted)
    #expect(rig.transport.count(.token) == 2)
    #expect(try await rig.view("work").state == .ok)
  }

  @Test("an outage during an exchange is an outage only for that token")
  func outage() async throws {
    let rig = try await rig(exchanges: true)
    rig.transport.answer(.token, TokenServer.failing(.lost))
    #expect(await rig.reason { try await get(rig, ["read"]) } == .temporarilyUnavailable)
    #expect(rig.store.grant("work")?.standing == .good && rig.store.intent("work") == nil)
    #expect(try await get(rig).access_token == "work-a1")
    rig.transport.answer(.token, Self.binding)
    rig.clock.advance(.seconds(6))
    #expect(try await get(rig, ["read"]).access_token == "exchanged")
  }

  @Test("a server whose metadata are not known yet is asked for them once")
  func noExchange() async throws {
    let rig = try await rig(exchanges: true)
    rig.transport.answer(.discovery) { _ in reply(TokenServer.metadata) }
    #expect(try await get(rig, ["read"]).access_token == "work-a1")
    #expect(rig.transport.count(.token) == 0)
    #expect(await rig.reason { try await get(rig, resource: "https://files.example/") } == .scopeNotGranted)
  }

  // MARK: Without rotation

  private func harmless(_ scope: String, refresh: String? = nil) -> ScriptedTransport.Answer {
    { request in
      let asked: String = request.form["scope"]?.replacing("+", with: " ") ?? "read write"
      let told: String = scope == "as asked" ? asked : scope
      let new: String = refresh.map { ",\"refresh_token\":\"\($0)\"" } ?? ""
      return reply(
        "{\"access_token\":\"for \(asked)\",\"token_type\":\"Bearer\",\"expires_in\":3600,\"scope\":\"\(told)\"\(new)}")
    }
  }

  private func result(_ rig: Rig) async -> NarrowingResult? {
    await rig.broker.providers[provider("example")]?.history.narrowingResult
  }

  @Test("the first narrowed refresh is judged, and its result is kept over a restart")
  func works() async throws {
    let rig = try await rig { $0.refresh.rotation = .none }
    rig.transport.answer(.token, harmless("as asked"))
    #expect(try await get(rig, ["read"]).access_token == "for read")
    #expect(await eventually { await result(rig) == .works })
    #expect(rig.store.value("narrowing.example") == "works")
  }

  @Test("a server that ignores the scope is asked once")
  func ignored() async throws {
    let rig = try await rig { $0.refresh.rotation = .none }
    rig.transport.answer(.token, harmless("read write"))
    _ = try await get(rig, ["read"])
    #expect(await eventually { await result(rig) == .ignored })
    #expect(try await get(rig, ["write"]).access_token == "work-a1")
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("a new refresh token in the answer does not replace the one of the account")
  func rotated() async throws {
    let rig = try await rig { $0.refresh.rotation = .none }
    rig.transport.answer(.token, harmless("as asked", refresh: "bound"))
    _ = try await get(rig, ["read"])
    #expect(await eventually { await result(rig) == .harmful })
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
    #expect(try await get(rig, ["write"]).access_token == "work-a1")
    #expect(rig.transport.count(.token) == 1)
    // A reload of the same server does not forget it.
    _ = try await rig.call(BrokerReload.self, NoParams())
    #expect(await result(rig) == .harmful)
  }

  @Test("without an answer about the account's own token, narrowing stays unproven")
  func unanswered() async throws {
    let rig = try await rig {
      $0.refresh.rotation = .none
      $0.server.endpoints[.introspection] = "https://id.example/introspect"
    }
    rig.transport.answer(.token, harmless("as asked"))
    rig.transport.answer(.introspection, TokenServer.failing(.lost))
    _ = try await get(rig, ["read"])
    #expect(await eventually { rig.transport.count(.introspection) > 0 })
    await settle()
    #expect(await result(rig) == .unknown)
  }

  @Test("an account whose own token became invalid is refreshed, and no other narrowed token is requested")
  func killed() async throws {
    let rig = try await rig {
      $0.refresh.rotation = .none
      $0.server.endpoints[.introspection] = "https://id.example/introspect"
    }
    rig.transport.answer(.token, harmless("as asked"))
    rig.transport.answer(.introspection) { _ in reply(#"{"active":false}"#) }
    _ = try await get(rig, ["read"])
    #expect(await eventually { await result(rig) == .harmful })
    #expect(await eventually { (try? await get(rig).access_token) == "for read write" })
    #expect(try await get(rig, ["write"]).access_token == "for read write")
  }
}
