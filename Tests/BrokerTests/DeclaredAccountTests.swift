import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

/// Accounts of the configuration: which definition a token belongs to.
@Suite(.timeLimit(.minutes(2))) struct DeclaredAccountTests {
  private static let source = ExchangeSource(from: account("work"), audience: "one")

  private func configuration(_ source: ExchangeSource?) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain()
    configuration.accounts = source.map { [.robot($0)] } ?? []
    return configuration
  }

  private func store() async throws -> MemoryStore {
    let store = MemoryStore()
    for name in ["work", "home"] { try await store.signIn(name) }
    return store
  }

  private func rig(_ source: ExchangeSource, _ store: MemoryStore) async throws -> Rig {
    let rig = try await Rig(store: store, configuration: configuration(source))
    rig.transport.answer(.token, TokenServer.trading)
    return rig
  }

  @Test(
    "The answer to a request of the old definition is not taken for the new one's",
    arguments: [true, false])
  func answerOfBefore(_ isForgottenBetween: Bool) async throws {
    let rig = try await rig(Self.source, store())
    rig.transport.hold(.token)
    let caller = Task { try? await rig.token("robot", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 1 })
    var other = Self.source
    other.audience = "two"
    for source in isForgottenBetween ? [nil, other] : [other] {
      rig.reading.value = .success(configuration(source))
      _ = try await rig.call(BrokerReload.self, NoParams())
    }
    let second = Task { try? await rig.token("robot", timeout: 300) }
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token)
    await settle()
    #expect(rig.store.token("robot") == nil)
    rig.transport.release(.token)
    #expect(await second.value?.access_token == "work-a1-for-two")
    _ = await caller.value
    #expect(rig.store.token("robot")?.accessToken == Secret("work-a1-for-two"))
  }
}

extension DeclaredAccount {
  /// An account of the provider `example` that trades another's token.
  static func robot(_ source: ExchangeSource, name: String = "robot") -> Self {
    DeclaredAccount(
      name: AccountName(rawValue: name)!, provider: ProviderName(rawValue: "example")!, source: .exchange(source))
  }
}

extension TokenServer {
  /// Trades `work-a1` for `work-a1-for-AUDIENCE`; rotates refresh tokens.
  static let trading: ScriptedTransport.Answer = { request in
    guard let subject = request.form["subject_token"] else { return granted(request, lifetime: 3600) }
    let token = "\(subject)-for-\(request.form["audience"] ?? "all")"
    return reply(
      #"{"access_token":"\#(token)","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","#
        + #""token_type":"Bearer","expires_in":3600}"#)
  }
}
