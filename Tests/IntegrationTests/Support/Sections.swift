import BrokerAPI
import DemoProvider
import Foundation

extension Rig {
  /// A `[provider.NAME]` of its own at the demo server, whose public client it is unless the lines say otherwise.
  func section(
    _ name: String, scopes: [String] = ["openid", "email", "profile", "offline_access"], _ lines: String = ""
  ) -> String {
    let list = scopes.map { "\"\($0)\"" }.joined(separator: ", ")
    return """
      [provider.\(name)]
      issuer = "\(demo.issuer)"
      \(lines.contains("client_id") ? "" : "client_id = \"\(wish.client.id)\"")
      scopes = [\(list)]
      \(lines)

      """
  }

  /// A rig whose configuration needs the demo server's address.
  static func with(
    _ wish: Wish = Wish(), sections: (Rig) throws -> String, _ body: (Rig) async throws -> Void
  ) async throws {
    try await with(wish, starting: false) { rig in
      try rig.configure(try sections(rig))
      try await rig.start()
      try await body(rig)
    }
  }

  func logout(_ account: String = "alice", endSession: Bool = false) async throws -> (steps: [String], url: String?) {
    let result = try await call("account.logout", ["account": .string(account), "end_session": .bool(endSession)])
    let steps = result["steps"]?.array ?? []
    return (
      steps.map { "\($0["step"]?.string ?? "") \($0["result"]?.string ?? "")" }, result["end_session_url"]?.string
    )
  }
}
