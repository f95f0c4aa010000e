import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// An account that becomes another provider's, or another login's, while its provider is asked by its token.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct OwnProviderTests {
  enum Question: CaseIterable {
    case introspect, userInfo, sessions, endSession, send

    var purpose: HTTPRequest.Purpose {
      switch self {
      case .introspect: .introspection
      case .userInfo: .userinfo
      case .sessions, .endSession, .send: .resource
      }
    }
  }

  private func ask(_ question: Question, _ rig: Rig) -> Task<ErrorReason?, Never> {
    Task { await rig.reason { try await rig.ask(question) } }
  }

  private func settings(_ name: String) -> ProviderSettings {
    .plain(name) { settings in
      settings.server.endpoints[.token] = "https://\(name).example/token"
      settings.server.endpoints[.introspection] = "https://\(name).example/introspect"
      settings.server.endpoints[.userinfo] = "https://\(name).example/userinfo"
    }
  }

  /// The account is declared, so that a reload changes its provider in one step.
  private func configuration(accountAt name: String) -> BrokerConfiguration {
    var configuration = BrokerConfiguration.plain(
      ["first", "second"].map { name in
        SteppedProvider(settings: settings(name)) {
          $0.apiTraits = APITraits(base: URL(string: "https://\(name).example/")!)
        }
      })
    configuration.accounts = [
      DeclaredAccount(name: account("work"), provider: provider(name), source: .clientCredentials)
    ]
    return configuration
  }

  private func rig() async throws -> Rig {
    let rig = try await Rig(configuration: configuration(accountAt: "first"))
    rig.transport.answer(.token) { request in
      reply(#"{"access_token":"token-of-\#(request.url.host() ?? "")","token_type":"Bearer","expires_in":3600}"#)
    }
    for purpose in [HTTPRequest.Purpose.introspection, .userinfo, .resource] {
      rig.transport.answer(purpose) { _ in reply(#"{"sub":"work","active":true}"#) }
    }
    return rig
  }

  private func move(_ rig: Rig) async throws {
    rig.reading.value = .success(configuration(accountAt: "second"))
    _ = try await rig.call(BrokerReload.self, NoParams())
  }

  /// Whether the second provider's token went anywhere.
  private func isSent(_ question: Question, _ rig: Rig) -> Bool {
    rig.transport.requests(question.purpose).contains { request in
      let sent = request.headers.map(\.value) + [String(decoding: request.body ?? Data(), as: UTF8.self)]
      return sent.contains { $0.contains("token-of-second.example") }
    }
  }

  @Test("A token that was waited for is not sent to the provider of before", arguments: Question.allCases)
  func waited(_ question: Question) async throws {
    let rig = try await rig()
    rig.transport.hold(.token)
    let asked = ask(question, rig)
    #expect(await eventually { rig.transport.held(.token) == 1 })
    try await move(rig)
    #expect(await eventually { rig.transport.held(.token) == 2 })
    rig.transport.releaseOne(.token, last: true)
    #expect(await asked.value == .unknownAccount)
    #expect(!isSent(question, rig))
    rig.transport.release(.token)
    #expect(await rig.isQuiet())
  }

  @Test(
    "Nor is the one that comes after a refused one",
    arguments: Question.allCases.filter { $0 != .introspect })
  func refused(_ question: Question) async throws {
    let rig = try await rig()
    _ = try await rig.token("work")
    rig.transport.answer(question.purpose) { _ in reply("{}", status: 401) }
    rig.transport.hold(question.purpose)
    let asked = ask(question, rig)
    #expect(await eventually { rig.transport.held(question.purpose) == 1 })
    try await move(rig)
    rig.transport.release(question.purpose)
    #expect(await asked.value == .unknownAccount)
    #expect(!isSent(question, rig) && rig.transport.count(question.purpose) == 1)
  }

  @Test("The refusal of a token does not concern another login's token of the same number")
  func anotherLogin() async throws {
    let rig = try await Rig(configuration: .plain([SteppedProvider()]))
    _ = await rig.callBack(try await rig.start(), ["state": nil])
    rig.transport.answer(.resource) { request in
      reply("{}", status: request.headers.contains { $0.value == "Bearer work-a1" } ? 401 : 200)
    }
    rig.transport.hold(.resource)
    let asked = ask(.sessions, rig)
    #expect(await eventually { rig.transport.held(.resource) == 1 })
    _ = try await rig.call(AccountLogout.self, .init(account: "work", revoke: false))
    _ = await rig.callBack(try await rig.start(), code: "again", ["state": nil])
    let sent = rig.transport.count(.token)
    rig.transport.release(.resource)
    #expect(await asked.value == nil)
    #expect(rig.transport.count(.token) == sent && rig.store.token("work")?.generation == 1)
  }
}

extension Rig {
  /// Asks by the token of the account `work`.
  func ask(_ question: OwnProviderTests.Question, as caller: Caller = .root) async throws {
    switch question {
    case .introspect: _ = try await call(TokenIntrospect.self, .init(account: "work"), as: caller)
    case .userInfo: _ = try await call(AccountUserinfo.self, .init(account: "work"), as: caller)
    case .sessions: _ = try await call(AccountSessions.self, .init(account: "work"), as: caller)
    case .endSession:
      _ = try await call(AccountEndSession.self, .init(account: "work", session_id: "s1"), as: caller)
    case .send:
      _ = try await call(RequestSend.self, .init(account: "work", method: "POST", url: "/me"), as: caller)
    }
  }
}
