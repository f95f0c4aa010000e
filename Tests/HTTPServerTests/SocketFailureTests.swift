import Foundation
import Glibc
import Listening
import Logging
import NIOPosix
import TestSupport
import Testing

@testable import HTTPServer

/// A Unix socket that cannot be bound.
@Suite struct SocketFailureTests {
  @Test(
    "a failure has an errno, which chooses the hint",
    arguments: [
      (SocketFile.Failure.pathTooLong(limit: 107), ENAMETOOLONG), (.inUse, EADDRINUSE), (.notASocket, EEXIST),
      (.unsafeFolder("/p", detail: "d"), EPERM), (.failed(path: "/p", call: "stat", code: ENOENT), ENOENT),
    ])
  func codes(_ failure: SocketFile.Failure, _ code: Int32) {
    let error = HTTPServerError(.unix(path: "/p/s"), failure)
    #expect(error.code == code && error.place == "/p/s")
    #expect(error.detail == (code == EPERM ? "the folder /p is not safe: d" : nil))
  }

  private let folder = FileManager.default.temporaryDirectory
    .appendingPathComponent("sf-\(UUID().uuidString.prefix(8))").path

  private func server() -> HTTPServer {
    HTTPServer(
      address: .unix(path: folder + "/h.sock"), group: MultiThreadedEventLoopGroup.singleton,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, application: Answers())
  }

  @Test("a folder that does not exist is not made") func missing() async throws {
    let server = server()
    let error = await #expect(throws: HTTPServerError.self) { try await server.start() }
    #expect(error?.code == ENOENT && !FileManager.default.fileExists(atPath: folder))
  }

  @Test("a folder that another user may write is refused, with its mode", arguments: SocketFolders.modes)
  func folders(_ mode: UInt32, _ isSafe: Bool) async throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(chmod(folder, mode) == 0)
    let server = server()
    if isSafe {
      #expect(try await server.start() == folder + "/h.sock")
      await server.stop()
    } else {
      let error = await #expect(throws: HTTPServerError.self) { try await server.start() }
      #expect(error?.message == "the folder \(folder) is not safe: \(SocketFolders.detail(mode))")
      #expect(error?.hint("[http] unix").contains("a folder of grantd's user or root that no other user may") == true)
      #expect(!FileManager.default.fileExists(atPath: folder + "/h.sock"))
    }
  }

  @Test("the folder of another user is refused", .enabled(if: geteuid() == 0)) func foreign() async throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(chown(folder, 4242, 4242) == 0)
    let server = server()
    let error = await #expect(throws: HTTPServerError.self) { try await server.start() }
    #expect(error?.message == "the folder \(folder) is not safe: it belongs to user 4242")
  }
}
