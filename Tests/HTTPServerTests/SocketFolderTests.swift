import Foundation
import Glibc
import Logging
import NIOPosix
import Testing

@testable import HTTPServer

/// The folder of an HTTP socket.
@Suite struct SocketFolderTests {
  private func error(mode: UInt32, owner: uid_t? = nil) async throws -> HTTPServerError? {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("sf-\(UUID().uuidString.prefix(8))").path
    #expect(mkdir(folder, 0o700) == 0 && chmod(folder, mode) == 0)
    if let owner { #expect(chown(folder, owner, owner) == 0) }
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let server = HTTPServer(
      address: .unix(path: folder + "/h.sock"), group: MultiThreadedEventLoopGroup.singleton,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, application: Answers())
    do throws(HTTPServerError) {
      _ = try await server.start()
      await server.stop()
      return nil
    } catch {
      #expect(!FileManager.default.fileExists(atPath: folder + "/h.sock"))
      return error
    }
  }

  @Test("a folder that other users may write is refused, unless they cannot replace the socket")
  func writable() async throws {
    for mode: UInt32 in [0o700, 0o755, 0o1777] { #expect(try await error(mode: mode) == nil) }
    for mode: UInt32 in [0o777, 0o775, 0o722] {
      let error = try await error(mode: mode)
      #expect(error?.code == EPERM && error?.message.contains("others may write there") == true)
    }
  }

  @Test("a folder of another user is refused", .enabled(if: geteuid() == 0)) func foreign() async throws {
    let error = try await error(mode: 0o755, owner: 61_999)
    #expect(error?.message.hasSuffix("is not safe: it belongs to user 61999") == true)
  }
}
