import Foundation
import Grants
import OAuth
import Providers
import TestSupport
import Testing

@testable import Broker

/// Logout tokens that no provider made: any client of the endpoint can send them.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ForgedLogoutTests {
  @Test("Log lines about forged logout tokens are limited per minute, and one counts the others")
  func flood() async throws {
    let journal = LoggedLines()
    let settings = ProviderSettings.plain { $0.logout.backchannel = true }
    let rig = try await Rig(configuration: .plain([NamingProvider(settings)]), logger: journal.logger())
    func lines() -> [String] { journal.all.map(\.text).filter { $0.contains("logout token") } }
    for _ in 1...1000 {
      guard
        case .refused = await rig.broker.handleLogout(provider: "example", form: Data("logout_token=e30.e30.AAAA".utf8))
      else { return #expect(Bool(false), "a forged token was taken") }
    }
    #expect(lines().count == Limit.refusalLines)
    #expect(
      await rig.clock.reaches(by: .seconds(10)) {
        lines().last == "refused \(1000 - Limit.refusalLines) more logout tokens"
      })
    #expect(lines().count == Limit.refusalLines + 1)
  }

  @Test("a few tokens with unknown keys wait for the signing keys; tokens with known keys do not wait")
  func unknownKeys() async throws {
    let name = provider("example")
    let rig = try await Rig(configuration: .plain([OAuthProvider(.oidc())]))
    _ = await rig.broker.providers[name]!.fetchKeys(unknown: nil)
    rig.transport.hold(.keys)
    let forged = (0..<Limit.logoutsAwaitingKeys).map { _ in
      Task { await rig.broker.providers[name]!.signingKeys(unknown: "k2", for: .logouts) }
    }
    #expect(await eventually { rig.transport.held(.keys) == 1 })
    let further = await rig.broker.providers[name]!.signingKeys(unknown: "k2", for: .logouts)
    guard case .failure(let failure) = further else {
      Issue.record("another token waited")
      return
    }
    #expect(failure.isOfProvider)
    let known = await rig.broker.providers[name]!.signingKeys(unknown: nil, for: .logouts)
    #expect((try? known.get()) != nil)
    rig.transport.release(.keys)
    for task in forged { #expect((try? await task.value.get()) != nil) }
    let later = await rig.broker.providers[name]!.signingKeys(unknown: "k3", for: .logouts)
    #expect((try? later.get()) != nil)
    #expect(rig.transport.count(.keys) == 2)
  }
}
