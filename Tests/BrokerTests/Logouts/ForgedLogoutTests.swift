import Foundation
import Grants
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
}
