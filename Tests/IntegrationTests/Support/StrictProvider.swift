import Foundation
import TestSupport

/// `Tests/Support/strict-provider`: a provider that shares no code with the demo provider, and ends a family of tokens
/// where one is used twice.
final class StrictProvider: Sendable {
  struct Ledger: Decodable {
    var refreshes: Int
    /// The number of the refresh token that is good, by the family's name.
    var current: [String: Int]
    var revoked: [String]
  }

  static let python = "/usr/bin/python3"
  static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Support").path(percentEncoded: false)

  let port: Int
  private let folder: Folder
  private let child: Child

  private init(_ port: Int, _ folder: Folder, _ child: Child) {
    (self.port, self.folder, self.child) = (port, folder, child)
  }

  static func start() async throws -> StrictProvider {
    let folder = try Folder()
    let child = try Child(
      python, ["\(Self.folder)/strict-provider", folder.path("port")], environment: ["PATH": "/usr/bin:/bin"],
      output: folder.path("log"))
    let port = try await eventually("the provider listens") {
      (try? String(contentsOfFile: folder.path("port"), encoding: .utf8)).flatMap {
        Int($0.trimmingCharacters(in: .whitespacesAndNewlines))
      }
    }
    return StrictProvider(port, folder, child)
  }

  func stop() { child.kill9() }

  /// The section that configures it.
  func section(_ name: String = "strict") -> String {
    """
    [provider.\(name)]
    kind = "oauth2"
    client_id = "client"
    authorization_endpoint = "http://127.0.0.1:\(port)/authorize"
    token_endpoint = "http://127.0.0.1:\(port)/token"
    """
  }

  /// From now on refreshes are acted on at once and answered so much later.
  func delay(seconds: Double) async throws {
    guard try await Browser.open("http://127.0.0.1:\(port)/delay?seconds=\(seconds)").status == 200 else {
      throw Failed("the provider takes no delay")
    }
  }

  var ledger: Ledger {
    get async throws {
      let page = try await Browser.open("http://127.0.0.1:\(port)/ledger")
      return try JSONDecoder().decode(Ledger.self, from: Data(page.body.utf8))
    }
  }
}
