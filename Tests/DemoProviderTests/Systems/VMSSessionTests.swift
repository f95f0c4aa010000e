import DemoProvider
import Foundation
import NIOHTTP1
import Testing

@Suite struct VMSSessionTests {
  @Test func theSessionLimitIsTakenByReplacingSessionsOneByOne() async throws {
    try await withServer { server, client in
      #expect(await client.set(["vms_session_limit": 2, "vms_captcha_in": 3]))
      let old = try server.addVMSSession(client: "mobile", isOnline: false, age: .seconds(3600))
      for _ in 0..<2 { try server.addVMSSession() }
      let first = try #require(await client.vmsLogin(["code": .string(await client.vmsCode())]))
      #expect(first.status == 419 && first.json?["sessions_limit"] == 2)
      #expect(first.json?["captcha_will_required_in"] == 3)
      guard case .array(let sessions)? = first.json?["sessions"], let oldest = sessions.first else { throw Missing() }
      #expect(sessions.count == 3 && oldest["id"] == .int(Int(old) ?? 0) && oldest["online"] == false)
      #expect(oldest["last"]?.string != nil && sessions[1]["last"] == nil && oldest["is_current"] == false)
      #expect(oldest["client"] == "mobile" && oldest["ip"] != nil && oldest["user_agent"] != nil)
      let key = first.json?["key"] ?? .null
      let second = await client.vmsLogin(["key": key, "session_id": oldest["id"] ?? .null])
      #expect(second?.status == 419 && second?.json?["key"] != key)
      #expect(await client.vmsLogin(["key": key, "session_id": 999])?.status == 422, "the key before is over")
      let again: DemoServer.JSON = ["key": second?.json?["key"] ?? .null, "session_id": sessions[1]["id"] ?? .null]
      let last = await client.vmsLogin(again)
      #expect(last?.status == 200 && last?.json?["access_token"] != nil)
    }
  }

  @Test func withoutAKeyTheCodeStaysGood() async throws {
    try await withServer { server, client in
      #expect(await client.set(["vms_session_limit": 1, "vms_limit_key": false]))
      let id = try server.addVMSSession()
      let code = DemoServer.JSON.string(await client.vmsCode())
      let answer = await client.vmsLogin(["code": code])
      #expect(answer?.status == 419 && answer?.json?["key"] == nil)
      #expect(await client.vmsLogin(["code": code, "session_id": .string(id)])?.status == 200)
    }
  }

  @Test func aKeyBurnsTheCodeAndMayStayTheSame() async throws {
    try await withServer { server, client in
      #expect(await client.set(["vms_session_limit": 1, "vms_key_changes": false]))
      let ids = try (0..<2).map { _ in try server.addVMSSession() }
      let code = DemoServer.JSON.string(await client.vmsCode())
      let key = await client.vmsLogin(["code": code])?.json?["key"] ?? .null
      #expect(await client.vmsLogin(["code": code, "session_id": .string(ids[0])])?.status == 422)
      #expect(await client.vmsLogin(["key": key, "session_id": .string(ids[0])])?.json?["key"] == key)
      #expect(await client.vmsLogin(["key": key, "session_id": .string(ids[1])])?.status == 200)
    }
  }

  @Test func theLimitMayBeABareList() async throws {
    try await withServer { server, client in
      #expect(await client.set(["vms_session_limit": 1, "vms_limit_shape": "array"]))
      let id = try server.addVMSSession()
      let code = DemoServer.JSON.string(await client.vmsCode())
      let answer = await client.vmsLogin(["code": code])
      guard case .array(let sessions)? = answer?.json else { throw Missing() }
      #expect(answer?.status == 419 && sessions.count == 1)
      #expect(await client.vmsLogin(["code": code, "session_id": .string(id)])?.status == 200)
    }
  }

  @Test func sessionsAreListedAndEnded() async throws {
    try await withServer { server, client in
      let other = try server.addVMSSession()
      try server.addVMSSession(of: "bob")
      let answer = await client.vmsLogin(["code": .string(await client.vmsCode())])
      let token = answer?.json?["access_token"]?.string ?? ""
      guard case .array(let list)? = await client.vms(.GET, "sessions", token: token)?.json else { throw Missing() }
      #expect(list.map { $0["is_current"] } == [false, true])
      #expect(await client.set(["vms_list_shape": "object", "vms_done_status": 204]))
      #expect(await client.vms(.GET, "sessions", token: token)?.json?["sessions"] == .array(list))
      #expect(await client.vms(.POST, "sessions/\(other)", token: token)?.status == 204)
      #expect(await client.vms(.POST, "sessions/\(other)", token: token)?.status == 404)
      #expect(await client.vms(.GET, "sessions")?.status == 401)
    }
  }

  @Test(arguments: ["number", "string"])
  func identifiersAreNumbersOrTexts(_ kind: String) async throws {
    try await withServer { server, client in
      #expect(await client.set(["vms_ids": .string(kind), "vms_session_limit": 1]))
      let id = try server.addVMSSession()
      let limit = await client.vmsLogin(["code": .string(await client.vmsCode())])?.json
      guard case .array(let sessions)? = limit?["sessions"] else { throw Missing() }
      #expect(sessions.first?["id"] == (kind == "number" ? .int(Int(id) ?? 0) : .string(id)))
      let body: DemoServer.JSON = ["key": limit?["key"] ?? .null, "session_id": sessions.first?["id"] ?? .null]
      #expect(await client.vmsLogin(body)?.json?["user"]?["id"] == (kind == "number" ? 1 : "1"))
    }
  }

  @Test func logoutEndsTheDevicesSession() async throws {
    try await withServer { server, client in
      let answer = await client.vmsLogin(["code": .string(await client.vmsCode())])
      let token = answer?.json?["access_token"]?.string ?? ""
      #expect(await client.vms(.POST, "logout", json: [:], token: token)?.status == 422)
      #expect(await client.vms(.POST, "logout", json: ["uuid": "uuid-1"], token: token)?.status == 200)
      #expect(server.requests.last?.body.contains("uuid-1") == true)
      #expect(await client.vms(.POST, "logout", json: ["uuid": "uuid-1"], token: token)?.status == 401)
    }
  }
}
