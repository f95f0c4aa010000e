import DemoProvider
import NIOHTTP1

// The systems without OAuth. `Tests/systems` has stricter servers for them, with separate checks.
extension Refusal {
  static let systems: [Refusal] = [
    .init("a used code of the VMS", 422, nil) { _, client in
      let code = await client.vmsCode()
      _ = await client.vmsLogin(["code": code])
      return await client.vmsLogin(["code": code])
    },
    .init("a code of the VMS after its key", 422, nil, with: { $0.settings.vms.sessionLimit = 1 }) { server, client in
      let session = (try? server.addVMSSession()) ?? ""
      let code = await client.vmsCode()
      _ = await client.vmsLogin(["code": code])
      return await client.vmsLogin(["code": code, "session_id": .string(session)])
    },
    .init("an unknown key of the VMS", 422, nil) { _, client in await client.vmsLogin(["key": "unknown"]) },
    .init("a used state key of Zephr", 400, nil) { _, client in
      let key = await client.zephrKey()
      _ = await client.zephrRegister(key)
      return await client.zephrRegister(key)
    },
    .init("an unknown state key of Zephr", 400, nil) { _, client in await client.zephrRegister("unknown") },
  ]

  static let calls: [Refusal] = TestClient.vmsHeaders.keys.sorted().map { header in
    Refusal("a call of the VMS without \(header)", 400, nil) { _, client in
      await client.vms(.GET, "static/basic", without: header)
    }
  }
}

extension TestClient {
  fileprivate static let vmsHeaders = [
    "Accept": "application/json", "Content-Type": "application/json", "X-UUID": "uuid-1", "X-Client": "grantd",
    "hl": "en", "X-Version": "1.2.10",
  ]

  fileprivate func vms(
    _ method: HTTPMethod, _ path: String, json: DemoServer.JSON? = nil, without header: String = ""
  ) async -> Answer? {
    var all = Self.vmsHeaders
    all[header] = nil
    if json != nil { all["Content-Type"] = nil }
    return await send(method, "/api/v1/\(path)", json: json, headers: all)
  }

  fileprivate func vmsCode() async -> DemoServer.JSON {
    let url = await vms(.GET, "external/auth/url")?.json?["url"]?.string ?? ""
    return .string(await send(.GET, url)?.callback["code"] ?? "")
  }

  fileprivate func vmsLogin(_ body: DemoServer.JSON) async -> Answer? {
    await vms(.POST, "external/auth/callback", json: body)
  }

  /// The state key of a user who is not registered.
  fileprivate func zephrKey() async -> String {
    let page = await send(.GET, "/blaize/oauth/google?client_type=ios")?.header("location") ?? ""
    return await send(.GET, "\(page)&login_hint=user-7")?.callback["state_key"] ?? ""
  }

  fileprivate func zephrRegister(_ key: String) async -> Answer? {
    await send(
      .POST, "/blaize/register",
      json: ["identifiers": [:], "validators": ["token_exchange": .string(key)], "attributes": [:]])
  }
}
