import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth
import Providers
import TestSupport
import Testing

@testable import Broker

/// The end of a grant is reported everywhere, once, with the reason and the provider's rule.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct LostGrantTests {
  struct End: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let rotation: Rotation
    let rule: String
    var answers: [ScriptedTransport.Answer] = [TokenServer.refused("invalid_grant")]
    var lifetime: Duration?
    let reason: String

    static let all = [
      End(testDescription: "a refusal", rotation: .strict, rule: "strict", reason: "refused"),
      End(
        testDescription: "a refusal after a lost answer", rotation: .strict, rule: "strict",
        answers: [TokenServer.failing(.lost), TokenServer.refused("invalid_grant")], reason: "lost_rotation"),
      End(
        testDescription: "a refusal after a lost answer, with a grace", rotation: .grace(.seconds(90)),
        rule: "grace 90s", answers: [TokenServer.failing(.lost), TokenServer.refused("invalid_grant")],
        reason: "lost_rotation"),
      End(
        testDescription: "a refusal after a lost answer where nothing rotates", rotation: .none, rule: "none",
        answers: [TokenServer.failing(.lost), TokenServer.refused("invalid_grant")], reason: "refused"),
    ]
  }

  @Test("An end is an event, an error in the log, a metric and in the status; it is reported once", arguments: End.all)
  func told(_ end: End) async throws {
    let logged = LoggedLines()
    let settings = ProviderSettings.plain { $0.refresh.rotation = end.rotation }
    let rig = try await Rig(
      store: .expired("work"), configuration: .plain([OAuthProvider(settings)]), logger: logged.logger(.error))
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: ["login.required"]), on: session)
    for answer in end.answers {
      rig.transport.answer(.token, answer)
      _ = await rig.reasonInTime { try await rig.token("work") }
      rig.clock.advance(.seconds(10))
    }
    for _ in 0..<3 { #expect(await rig.reason { try await rig.token("work") } == .loginRequired) }

    #expect(session.told.count == 1)
    #expect(session.told.first?["detail"]?.string == end.reason)
    #expect(session.told.first?["rotation"]?.string == end.rule)
    #expect(session.told.first?["hint"]?.string?.contains("grantctl login example work") == true)

    let line = try #require(logged.all.first)
    #expect(logged.all.count == 1 && line.text.hasPrefix("account work needs a login: "))
    #expect(line.metadata["detail"] == "\(end.reason)" && line.metadata["rotation"] == "\(end.rule)")
    #expect(line.metadata["oauth"] == "invalid_grant" && line.metadata["reason"] == "login_required")
    #expect(!line.whole.contains("work-r1"))

    let metrics = try OpenMetricsText(try await rig.call(BrokerMetrics.self, NoParams()).text)
    for reason in ["refused", "lost_rotation", "identity_changed"] {
      #expect(
        metrics.value("grantd_lost_grants_total", ["provider": "example", "reason": reason])
          == (reason == end.reason ? 1 : 0), "\(reason)")
    }

    let view = JSON(encoding: try await rig.view("work"))
    #expect(view["last_error"]?["detail"]?.string == end.reason)
    #expect(view["last_error"]?["rotation"]?.string == end.rule)
    let status = JSON(encoding: try await rig.call(BrokerStatus.self, NoParams()))
    #expect(status["provider_conditions"]?.array?.first?["lost_grants"]?.integer == 1)
  }

  @Test("A planned end is not an error, and is counted with its reason")
  func planned() async throws {
    let logged = LoggedLines()
    let store = MemoryStore()
    try await store.signIn("work", age: .seconds(3500), refreshes: false)
    let rig = try await Rig(store: store, logger: logged.logger(.warning))
    rig.clock.advance(.seconds(200))
    _ = await rig.broker.tick()
    #expect(await eventually { !logged.all.isEmpty })
    #expect(logged.all.map(\.level) == [.warning])
    #expect(logged.all.first?.metadata["detail"] == "no_refresh_token")
    let metrics = try OpenMetricsText(try await rig.call(BrokerMetrics.self, NoParams()).text)
    #expect(metrics.value("grantd_lost_grants_total", ["provider": "example", "reason": "no_refresh_token"]) == 1)
  }
}
