import BrokerAPI
import DemoProvider
import Foundation
import Testing

/// `grantctl doctor` and `provider.check` of the real programs, against a provider that is ill in many ways.
@Suite("The doctor", .atMost)
struct DoctorTests {
  /// Runs grantctl against the rig's daemon; its output without line breaks.
  private func grantctl(_ rig: Rig, _ arguments: [String]) async throws -> (status: Int32, words: String, raw: String) {
    let (status, raw) = try await Programs.run(
      Programs.grantctl, arguments + ["--socket", rig.socket], in: rig.folder)
    return (status, raw.split(whereSeparator: \.isWhitespace).joined(separator: " "), raw)
  }

  @Test("without faults nothing fails, and no secret is shown")
  func well() async throws {
    try await Rig.with { rig in
      try await rig.login()
      let token = try await rig.token().access_token
      let (status, words, raw) = try await grantctl(rig, ["doctor"])
      #expect(status == 0, "\(raw)")
      #expect(words.contains("Provider demo") && words.contains("Account alice (demo)"))
      #expect(words.contains("ok issuer: \(rig.demo.issuer)") && words.hasSuffix(", 0 failures"))
      #expect(words.contains("ok key: \(rig.state)/grantd.key, mode 0600"))
      #expect(words.contains("ok redirect URI: http://127.0.0.1:"))
      #expect(!raw.contains(token) && !raw.contains("\u{1B}"))
      #expect(raw.split(separator: "\n").allSatisfy { $0.count <= 80 || !$0.contains(" ") || $0.contains("/") })
      #expect(try await rig.call("provider.check", ["provider": "demo"])["ok"] == true)
      // The check costs the account nothing.
      #expect(rig.demo.stats().refreshes == 0)
    }
  }

  struct Illness: Sendable {
    var kind: DemoServer.Fault.Kind
    var place: DemoServer.Fault.Place
    var parameters = DemoServer.Fault.Parameters()
    /// The check that fails, and what it says.
    var failed: String
    var words: [String]
  }

  static let illnesses: [Illness] = [
    Illness(
      kind: .wrongIssuer, place: .discovery, failed: "issuer",
      words: ["the provider says http://wrong-issuer.example", "issuer = \"http://wrong-issuer.example\""]),
    Illness(
      kind: .clockOffset, place: .any, parameters: .with { $0.seconds = -300 }, failed: "clock",
      words: ["s ahead of the provider's", "Check timedatectl"]),
    Illness(
      kind: .clockOffset, place: .any, parameters: .with { $0.seconds = 300 }, failed: "clock",
      words: ["s behind the provider's", "Check timedatectl"]),
    Illness(
      kind: .html200, place: .discovery, failed: "discovery",
      words: ["answers with a web page", "Open it in a browser"]),
    Illness(kind: .status, place: .discovery, failed: "discovery", words: ["unavailable (HTTP 503)", "wait"]),
    Illness(
      kind: .redirect, place: .discovery, failed: "discovery",
      words: ["there are no metadata at", "HTTP 404"]),
    Illness(
      kind: .dropBeforeCommit, place: .discovery, failed: "connection",
      words: ["closed the connection before it answered", "curl -v"]),
    Illness(kind: .html200, place: .jwks, failed: "keys", words: ["every login fails"]),
    Illness(kind: .hugeBody, place: .discovery, failed: "connection", words: ["larger than"]),
  ]

  @Test("each illness is one failure, with what to do", arguments: illnesses.indices)
  func ill(_ index: Int) async throws {
    let illness = Self.illnesses[index]
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(illness.kind, at: illness.place) { $0 = illness.parameters }
      let (status, words, raw) = try await grantctl(rig, ["doctor", "demo"])
      #expect(status == 1, "\(raw)")
      #expect(words.contains("FAIL \(illness.failed): ") && words.hasSuffix(", 1 failure"), "\(raw)")
      for text in illness.words { #expect(words.contains(text), "\(raw)") }
      let checks = try await rig.call("provider.check", ["provider": "demo"])["checks"]?.array ?? []
      #expect(checks.count { $0["result"] == "failed" } == 1)
      #expect(checks.allSatisfy { ($0["hint"] != nil) == ["failed", "warning"].contains($0["result"]) })
      // Tokens are served all the same.
      _ = try await rig.token()
    }
  }

  @Test("a provider that is down is reported by doctor and status, and the cached token is still served")
  func down() async throws {
    try await Rig.with { rig in
      try await rig.login()
      await rig.demo.stop()
      let (status, words, raw) = try await grantctl(rig, ["doctor"])
      #expect(status == 1, "\(raw)")
      #expect(words.contains("FAIL connection: no connection to 127.0.0.1: connection refused"))
      #expect(words.contains("Nothing listens at port \(rig.demo.port) of 127.0.0.1"))
      #expect(words.contains("skip discovery, issuer, endpoints, keys"))
      _ = try await rig.token()
      #expect(try await grantctl(rig, ["status"]).status == 0)
    }
  }

  @Test("a clock that is off shows in the status once the provider has answered")
  func skew() async throws {
    try await Rig.with { rig in
      try await rig.login()
      try rig.demo.fault(.clockOffset, at: .any) { $0.seconds = -120 }
      try await rig.call("token.report_rejected", ["account": "alice", "generation": 1])
      let conditions = try await rig.call("broker.status")["provider_conditions"]?.array
      let skew = try #require(conditions?.first?["skew_seconds"]?.double)
      #expect(abs(skew - 120) < 15)
      let words = try await grantctl(rig, ["status"]).words
      #expect(words.contains("clock: this machine's is") && words.contains("ahead of that of provider demo"))
    }
  }

  @Test("without a daemon the missing part is named")
  func absent() async throws {
    try await Rig.with { rig in
      try rig.kill9()
      let dead = try await grantctl(rig, ["doctor"])
      #expect(dead.status == 6 && dead.words.contains("FAIL socket: \(rig.socket) exists, but no process listens"))
      try FileManager.default.removeItem(atPath: rig.socket)
      let json = try await grantctl(rig, ["doctor", "--json"])
      #expect(json.status == 6)
      let report = try JSON.parse(Array(json.raw.utf8))
      #expect(report["ok"] == false && report["failures"] == 1)
    }
  }

  @Test("an invalid configuration is reported before the next start fails")
  func configuration() async throws {
    try await Rig.with { rig in
      let folder = String(Programs.grantd.dropLast("/grantd".count))
      try rig.folder.write("[provider.demo]\nclient_idd = \"x\"\n", to: "grantd.toml")
      let (status, raw) = try await Programs.run(
        Programs.grantctl, ["doctor", "--socket", rig.socket], in: rig.folder, path: folder + ":/usr/bin:/bin")
      #expect(status == 1)
      #expect(raw.contains("FAIL  configuration: grantd does not start with this configuration:"), "\(raw)")
      #expect(raw.contains("client_idd"))
    }
  }
}
