import Foundation
import Glibc
import Listening
import Logging
import NIOPosix
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

  @Test("a folder that does not exist is not made") func missing() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("sf-\(UUID().uuidString.prefix(8))").path
    let server = HTTPServer(
      address: .unix(path: folder + "/h.sock"), group: MultiThreadedEventLoopGroup.singleton,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, application: Answers())
    let error = await #expect(throws: HTTPServerError.self) { try await server.start() }
    #expect(error?.code == ENOENT && !FileManager.default.fileExists(atPath: folder))
  }
}
