import AsyncClient
import BlockingClient
import BrokerAPI
import Foundation
import TestSupport
import Testing

/// A network whose name server takes every question and answers none (`Tests/Support/silent-names`).
@Suite("A name server that never answers", .atMost)
struct NameServerTests {
  private static let unshare = "/usr/bin/unshare"
  private static let namespaces = ["--user", "--map-root-user", "--net", "--mount"]

  /// Whether this machine lets us have namespaces, and has what runs in them.
  private static let hasNamespaces: Bool = {
    guard FileManager.default.isExecutableFile(atPath: StrictProvider.python), let folder = try? Folder(),
      let child = try? Child(
        unshare, namespaces + ["mount", "--bind", "/etc/hosts", "/etc/hosts"],
        environment: ["PATH": "/usr/bin:/bin:/usr/sbin:/sbin"], output: folder.path("log"))
    else { return false }
    let deadline = ContinuousClock.now + .seconds(10)
    while ContinuousClock.now < deadline {
      if let status = child.status { return status == 0 }
      usleep(10_000)
    }
    return false
  }()

  /// Eleven providers: one whose name is in the hosts file, and ten that the name server would have to know. Each has an
  /// unattended account.
  private static func configuration(_ folder: Folder) throws -> String {
    let secret = try folder.write("a-secret\n", to: "secret")
    let providers = [("strict", "strict.test")] + (0..<10).map { ("lost-\($0)", "lost-\($0).test") }
    return providers.map { name, host in
      """
      [provider.\(name)]
      kind = "oauth2"
      client_id = "client"
      client_secret_file = "\(secret)"
      authorization_endpoint = "http://\(host):PORT/authorize"
      token_endpoint = "http://\(host):PORT/token"
      allow_insecure_http = true

      [account.\(name)]
      provider = "\(name)"
      grant = "client_credentials"

      """
    }.joined() + "[refresh]\nretry_delays = [\"1s\"]\n[callback]\nenabled = false\n"
  }

  @Test(
    "holds up the providers that it would have to know, and no other",
    .enabled(if: hasNamespaces, "this machine gives no user, network and mount namespaces, or has no /usr/bin/python3"))
  func silent() async throws {
    let folder = try Folder()
    try folder.write(try Self.configuration(folder), to: "grantd.toml.in")
    let arguments =
      Self.namespaces + [StrictProvider.python, "\(StrictProvider.folder)/silent-names", folder.root, Programs.grantd]
      + ["--user", "--config", folder.path("grantd.toml"), "--state", folder.path("state")]
      + ["--socket", folder.path("s"), "--log-level", "debug"]
    var environment = Programs.environment(folder)
    environment["PATH"] = "/usr/bin:/bin:/usr/sbin:/sbin"
    let child = try Child(Self.unshare, arguments, environment: environment, output: folder.path("log"))
    defer { child.kill9() }
    let client = try await eventually("the socket answers") { () -> SocketClient? in
      if let status = child.status {
        let log = (try? String(contentsOfFile: folder.path("log"), encoding: .utf8)) ?? ""
        throw Failed("it ended with status \(status):\n\(log.suffix(2000))")
      }
      return try? await SocketClient.connect(path: folder.path("s"))
    }
    // Each of the ten hangs by now, and goes on: so often the one that is known is answered soon. Between two, the
    // connection of the one before is closed.
    for _ in 0..<3 {
      let started = ContinuousClock.now
      let token = try await client.call(
        TokenGet.self, .init(account: "strict", min_ttl: nil, timeout: 20), timeout: .seconds(30))
      // A lookup has ten seconds.
      #expect(ContinuousClock.now - started < .seconds(9 * slowness), "the other names hold it up")
      _ = try await client.call(
        TokenReportRejected.self, .init(account: "strict", generation: token.generation, timeout: 20),
        timeout: .seconds(30))
      try await Task.sleep(for: .seconds(6))
    }
    // The others get the error within a request's time limit.
    let lost = await #expect(throws: SocketClientError.self) {
      _ = try await client.call(
        TokenGet.self, .init(account: "lost-9", min_ttl: nil, timeout: 25), timeout: .seconds(30))
    }
    if case .rpc(let error)? = lost {
      #expect(error.reason == .temporarilyUnavailable && error.message.contains("lost-9.test: the name "), "\(error)")
    }
    await client.close()
  }
}
