import BrokerAPI
import Grants
import OAuth
import Testing

@testable import Broker

@Suite(.timeLimit(.minutes(1))) struct ImportTests {
  private func importing(_ rig: Rig) -> Task<ErrorReason?, Never> {
    Task {
      await rig.reason {
        try await rig.call(
          AccountImport.self, .init(account: "work", provider: "example", refresh_token: SecretText("old-r1")))
      }
    }
  }

  /// Imported refresh tokens are refused; codes are taken.
  private func rig() async throws -> Rig {
    let rig = try await Rig()
    rig.transport.answer(.token) { request throws(TransportError) in
      request.form["refresh_token"] == "old-r1"
        ? try TokenServer.refused("invalid_grant")(request) : try TokenServer.rotating(request)
    }
    return rig
  }

  @Test("One that never worked leaves nothing behind") func nothing() async throws {
    let rig = try await rig()
    #expect(await importing(rig).value == .loginRequired)
    #expect(rig.store.grant("work") == nil)
    #expect(await rig.reason { try await rig.token("work") } == .unknownAccount)
  }

  @Test("One that fails while a login adopts the account does not forget the login") func adopted() async throws {
    let rig = try await rig()
    let login = try await rig.start()
    // Who writes the account next is the login, then whoever forgets it.
    rig.store.set(.hangs) { changes in
      changes.contains { if case .putGrant(let grant) = $0 { grant.standing != .good } else { false } }
    }
    let imported = importing(rig)
    #expect(await eventually { rig.store.hanging == 1 })
    let callback = Task { await rig.callBack(login) }
    #expect(await eventually { rig.transport.count(.token) == 2 })
    await settle()
    rig.store.set(.hangs, concerning: isRenewal)
    #expect(await eventually { rig.store.hanging == 1 })
    await settle()
    rig.store.set(.works)
    #expect(await callback.value.kind == .completed)
    #expect(await imported.value == .loginRequired)
    #expect(try await rig.token("work").access_token == "work-a1")
    #expect(rig.store.grant("work")?.refreshToken == Secret("work-r1"))
  }
}
