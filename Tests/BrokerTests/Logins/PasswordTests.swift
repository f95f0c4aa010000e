import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import Broker

@Suite("A person's name and password", .scheduled) struct PasswordTests {
  private func rig(allows: Bool = true) async throws -> Rig {
    try await Rig(
      configuration: .plain([NamingProvider(.plain { $0.token.allowsPassword = allows })]))
  }

  private func params(_ password: String = "open-sesame") -> LoginPassword.Params {
    .init(provider: "example", account: "work", username: "work", password: SecretText(password))
  }

  @Test("become an account where the configuration allows it, and are kept nowhere") func become() async throws {
    let rig = try await rig()
    rig.transport.answer(.token) { request in
      #expect(request.form["grant_type"] == "password" && request.form["username"] == "work")
      #expect(request.form["password"] == "open-sesame" && request.form["scope"] == "read")
      return reply(#"{"access_token":"work-a1","token_type":"Bearer","refresh_token":"work-r1","expires_in":3600}"#)
    }
    let view = try await rig.call(LoginPassword.self, params())
    #expect(view.account == "work" && view.state == .ok && view.grant == "password")
    #expect(try await rig.token("work").access_token == "work-a1")
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
    #expect(try await rig.call(LoginList.self, NoParams()).logins.isEmpty)
    #expect(rig.transport.count(.token) == 1)
  }

  @Test("that the provider does not take make no account") func refused() async throws {
    let rig = try await rig()
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    #expect(await rig.reason { try await rig.call(LoginPassword.self, params("wrong")) } == .loginDenied)
    rig.transport.answer(.token, TokenServer.failing(.lost))
    #expect(await rig.reason { try await rig.call(LoginPassword.self, params()) } == .temporarilyUnavailable)
    #expect(rig.store.grant("work") == nil)
  }

  @Test("are sent only to providers of the configuration") func notAllowed() async throws {
    let rig = try await rig(allows: false)
    #expect(await rig.reason { try await rig.call(LoginPassword.self, params()) } == .unsupportedByProvider)
    #expect(rig.transport.count(.token) == 0)
  }
}
