import DemoProvider
import Foundation
import NIOHTTP1
import Testing

extension TestClient {
  static let vmsHeaders = [
    "Accept": "application/json", "Content-Type": "application/json", "X-UUID": "uuid-1", "X-Client": "grantd",
    "hl": "en", "X-Version": "1.2.10",
  ]

  func vms(
    _ method: HTTPMethod, _ path: String, json: DemoServer.JSON? = nil, token: String? = nil,
    without header: String? = nil, headers: [String: String] = [:]
  ) async -> Answer? {
    var all = Self.vmsHeaders.merging(headers) { $1 }
    if let token { all["Authorization"] = "Bearer \(token)" }
    if let header { all[header] = nil }
    if json != nil { all["Content-Type"] = nil }
    return await send(method, "/api/v1/\(path)", json: json, headers: all)
  }

  func vmsCode(of user: String = "alice") async -> String {
    let url = await vms(.GET, "external/auth/url")?.json?["url"]?.string ?? ""
    return await send(.GET, "\(url)&login_hint=\(user)")?.callback["code"] ?? ""
  }

  func vmsLogin(_ body: DemoServer.JSON) async -> Answer? {
    await vms(.POST, "external/auth/callback", json: body)
  }

  func set(_ settings: DemoServer.JSON) async -> Bool {
    await send(.POST, "/_control/settings", json: settings)?.status == 200
  }
}

@Suite struct VMSTests {
  @Test func theServerTellsWhetherExternalLoginIsThere() async throws {
    try await withServer { _, client in
      let basic = try #require(await client.vms(.GET, "static/basic")?.json)
      #expect(basic["is_external_auth_enabled"] == true && basic["is_captcha_available"] == false)
      #expect(basic["available_locales"] == ["en", "de"] && basic["version"]?.string != nil)
      #expect(await client.set(["vms_enabled": false, "vms_captcha": true]))
      let changed = await client.vms(.GET, "static/basic")?.json
      #expect(changed?["is_external_auth_enabled"] == false && changed?["is_captcha_available"] == true)
      #expect(await client.vms(.GET, "external/auth/url")?.status == 403)
    }
  }

  @Test(arguments: ["Accept", "Content-Type", "X-UUID", "X-Client", "hl", "X-Version"])
  func aCallWithoutAHeaderIsRefused(_ header: String) async throws {
    try await withServer { server, client in
      let answer = await client.vms(.GET, "static/basic", without: header)
      #expect(answer?.status == 400 && answer?.json?["message"]?.string?.contains(header) == true)
      #expect(await client.set(["vms_needs_headers": false]))
      #expect(await client.vms(.GET, "static/basic", without: header)?.status == 200)
      #expect(server.requests.last?.headers["hl"] == (header == "hl" ? nil : "en"))
    }
  }

  @Test(arguments: [("1.2.9", 200), ("1.2.10", 200), ("1.10", 409)])
  func anOldClientIsToldSo(_ oldest: String, _ status: Int) async throws {
    try await withServer { _, client in
      #expect(await client.set(["vms_oldest_client": .string(oldest)]))
      #expect(await client.vms(.GET, "static/basic")?.status == status)
    }
  }

  @Test func theExternalURLLeadsToTheSchemeWithACodeAndNoState() async throws {
    try await withServer { _, client in
      let url = try #require(await client.vms(.GET, "external/auth/url")?.json?["url"]?.string)
      let page = try #require(await client.send(.GET, url))
      #expect(page.status == 303 && page.header("location")?.hasPrefix("vms-demo://external-auth?code=") == true)
      #expect(page.callback.keys.sorted() == ["code"])
      #expect(await client.send(.GET, url)?.status == 400, "it is good once")
      #expect(await client.set(["vms_redirect": "http://127.0.0.1:1/cb?x=1", "approve": "ask"]))
      let next = try #require(await client.vms(.GET, "external/auth/url")?.json?["url"]?.string)
      #expect(await client.send(.GET, next)?.body?.contains("name=\"ticket\"") == true)
      let ticket = String(next.split(separator: "=").last ?? "")
      let form = ["ticket": ticket, "username": "bob", "decision": "allow"]
      let answer = await client.send(.POST, "/vms/sign-in", form: form)
      #expect(answer?.header("location")?.hasPrefix("http://127.0.0.1:1/cb?x=1&code=vmscode-") == true)
    }
  }

  @Test func aRefusalIsAPageOrAnError() async throws {
    try await withServer { _, client in
      for (refusal, status) in [("page", 200), ("callback", 303)] {
        #expect(await client.set(["vms_refusal": .string(refusal)]))
        let url = await client.vms(.GET, "external/auth/url")?.json?["url"]?.string ?? ""
        let answer = await client.send(.GET, url + "&login_hint=deny")
        #expect(answer?.status == status)
        #expect(answer?.callback["error"] == (status == 303 ? "access_denied" : nil))
      }
    }
  }

  @Test func aCodeGivesAUserAndATokenOnce() async throws {
    try await withServer { _, client in
      let code = await client.vmsCode()
      let answer = try #require(await client.vmsLogin(["code": .string(code)]))
      let user = try #require(answer.json?["user"])
      #expect(answer.status == 200 && user["login"] == "alice" && user["phone"] != nil)
      #expect(user["can_update_password"] == false && user["permissions"] != nil && user["token"] == nil)
      let token = try #require(answer.json?["access_token"]?.string)
      #expect(await client.vms(.GET, "users/self", token: token)?.json?["name"] == "Alice Example")
      #expect(await client.vmsLogin(["code": .string(code)])?.status == 422)
      let bob = await client.vmsLogin(["code": .string(await client.vmsCode(of: "bob"))])?.json
      #expect(bob?["user"]?["phone"] == nil && bob?["user"]?["login"] == "bob")
    }
  }

  @Test(
    arguments: [
      [:], ["code": "unknown"], ["key": "unknown"], ["code": .null], ["session_id": 1],
    ] as [DemoServer.JSON])
  func aLoginWithoutAGoodCodeOrKeyNamesTheField(_ body: DemoServer.JSON) async throws {
    try await withServer { _, client in
      let answer = await client.vmsLogin(body)
      #expect(answer?.status == 422 && answer?.json?["message"] != nil)
      guard case .object(let errors)? = answer?.json?["errors"] else { throw Missing() }
      #expect(errors.keys.first == (body["key"] == nil ? "code" : "key"))
      #expect(await client.set(["vms_errors": "string", "vms_bad_code": 401]))
      let other = await client.vmsLogin(body)
      #expect(other?.status == 401 && other?.json?["errors"]?.string != nil)
    }
  }

  @Test func aTokenMayEndAndAUserMayBeThrownOut() async throws {
    let clock = StepClock()
    try await withServer({ $0.now = { clock.now } }) { server, client in
      #expect(await client.set(["vms_token_ttl": 60]))
      let answer = await client.vmsLogin(["code": .string(await client.vmsCode())])
      let token = answer?.json?["access_token"]?.string ?? ""
      #expect(await client.vms(.GET, "users/self", token: token)?.status == 200)
      clock.advance(61)
      #expect(await client.vms(.GET, "users/self", token: token)?.status == 401)
      #expect(await client.set(["vms_token_ttl": 0]))
      #expect(await client.vms(.GET, "users/self", token: token)?.status == 200)
      let ended = try server.revoke(user: "alice")
      #expect(ended == 1)
      #expect(await client.vms(.GET, "users/self", token: token)?.status == 401)
    }
  }

  @Test(arguments: [401, 403, 404, 409, 422, 429, 500, 503])
  func aFaultGivesAnyStatus(_ status: Int) async throws {
    try await withServer { server, client in
      try server.fault(.status, at: .vmsLogin, times: 1) {
        $0.status = status
        $0.body = "{\"message\":\"no\"}"
        $0.contentType = "application/json"
      }
      let answer = await client.vmsLogin(["code": .string(await client.vmsCode())])
      #expect(answer?.status == status && answer?.json?["message"] == "no")
      try server.fault(.status, at: .vms, times: 1) { $0.status = status }
      #expect(await client.vms(.GET, "static/basic")?.status == status)
    }
  }
}

/// An answer lacks a member that the test needs.
struct Missing: Error {}
