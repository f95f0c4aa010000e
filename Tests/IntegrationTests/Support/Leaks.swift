import BrokerAPI
import DemoProvider
import Foundation
import Synchronization
import TestSupport

/// Every secret that a run used, and everything that was said where none may be.
final class Leaks: Sendable {
  private let secrets = Mutex<Set<String>>([])
  private let texts = Mutex<[(place: String, text: String)]>([])

  var count: Int { secrets.withLock { $0.count } }
  var all: [String] { secrets.withLock { $0.sorted() } }

  /// Shorter ones are found by chance.
  private static let shortest = 12

  func know(_ values: String?...) {
    secrets.withLock { $0.formUnion(values.compactMap(\.self).filter { $0.utf8.count >= Self.shortest }) }
  }

  func record(_ text: String, at place: String) { texts.withLock { $0.append((place, text)) } }

  private static let parameters = [
    "code", "state", "nonce", "code_verifier", "refresh_token", "client_secret", "client_assertion", "device_code",
    "assertion", "subject_token", "actor_token", "token", "id_token_hint", "request", "password",
  ]

  /// What the daemon sent to the provider.
  func learn(from requests: [DemoServer.SeenRequest]) {
    for request in requests {
      for name in Self.parameters { know(request.parameters[name]) }
      know(request.headers["dpop"])
      guard let authorization = request.headers["authorization"], let space = authorization.firstIndex(of: " ") else {
        continue
      }
      let credentials = String(authorization[authorization.index(after: space)...])
      know(credentials)
      let pair = Data(base64Encoded: credentials).map { String(decoding: $0, as: UTF8.self) }
      if authorization.hasPrefix("Basic "), let pair, let colon = pair.firstIndex(of: ":") {
        know(String(pair[pair.index(after: colon)...]).removingPercentEncoding)
      }
    }
  }

  /// The data between the daemon and the token endpoint, unchanged.
  func learn(from record: String) {
    for match in record.matches(of: /"(?:access_token|refresh_token|id_token)" ?: ?"([^"]+)"/) {
      know(String(match.1))
    }
  }

  /// The private member of a key file.
  func learn(from key: ClientKeyPair) {
    let text = try? String(contentsOfFile: key.path, encoding: .utf8)
    know(text.flatMap(DemoServer.JSON.init(text:))?["d"]?.string)
  }

  /// Which secret is where; empty is good. Of a secret no more than its beginning is named.
  func found() -> [String] {
    let secrets = secrets.withLock { $0 }
    return texts.withLock { $0 }.flatMap { place, text in
      let bytes = Data(text.utf8)
      return secrets.filter { bytes.range(of: Data($0.utf8)) != nil }.map { "\($0.prefix(6))… is in \(place)" }
    }
  }

  /// The log and every file of the state folder.
  func foundInFiles(of rig: Rig) throws -> [String] {
    let secrets = secrets.withLock { $0 }
    let state = try FileManager.default.contentsOfDirectory(atPath: rig.state).map { "\(rig.state)/\($0)" }
    return try (state + [rig.folder.path("log")]).flatMap { file in
      let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
      return secrets.filter { bytes.range(of: Data($0.utf8)) != nil }.map { "\($0.prefix(6))… is in \(file)" }
    }
  }

  // MARK: What is said

  /// A request whose complete answer may be read by any permitted caller.
  @discardableResult
  func ask(_ client: RawClient, _ method: String, _ params: JSON = [:]) async throws -> JSON {
    let request = JSON.object([
      .init(name: "jsonrpc", value: "2.0"), .init(name: "id", value: 1), .init(name: "method", value: .string(method)),
      .init(name: "params", value: params),
    ])
    try await client.send(String(decoding: request.serialized(), as: UTF8.self) + "\n")
    let line = try await client.line()
    record(line, at: "the answer of \(method)")
    return try JSON.parse(Array(line.utf8))
  }

  /// A command whose output has no secret, for people and for programs.
  func run(_ rig: Rig, _ arguments: [String]) async throws {
    for more in [[], ["--json"]] {
      let (_, output) = try await Programs.run(
        Programs.grantctl, arguments + more + ["--socket", rig.socket], in: rig.folder)
      record(output, at: "grantctl \((arguments + more).joined(separator: " "))")
    }
  }
}
