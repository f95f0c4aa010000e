import BrokerAPI
import Foundation
import Glibc
import Listening
import TestSupport
import Testing

@testable import UnixSocket

@Suite struct BindingTests {
  private func mode(_ path: String) -> UInt32 {
    var status = stat()
    return lstat(path, &status) == 0 ? status.st_mode & 0o777 : 0
  }

  @Test("the socket has exactly its mode, regardless of the umask", arguments: [UInt32(0o600), 0o660, 0o666])
  func theSocketHasExactlyItsModeWhatever(expected: UInt32) async throws {
    try await Served.with(mode: expected) { served in
      #expect(mode(served.path) == expected)
    }
  }

  @Test("a missing folder is made with its mode") func aMissingFolderIsMadeWithIts() async throws {
    try await Served.inFolder { folder in
      let server = Served.server(.path(folder + "/grantd/s.sock"))
      try await server.start()
      #expect(mode(folder + "/grantd") == 0o700)
      await server.drain(deadline: .zero)
    }
  }

  @Test("a stale socket is replaced and the file goes at the end") func aStaleSocketIsReplacedAndThe() async throws {
    try await Served.inFolder { folder in
      let path = folder + "/s.sock"
      let left = try ListeningSocket.bound(at: path, mode: 0o600, folderMode: 0o700)
      close(left.descriptor)
      let server = Served.server(.path(path))
      try await server.start()
      let client = try RawClient(path)
      try await client.send(tokenGet(1))
      #expect(try await client.json()["id"] == 1)
      await server.drain(deadline: .zero)
      #expect(!FileManager.default.fileExists(atPath: path))
    }
  }

  @Test("a path where a server answers is refused and left alone") func aPathWhereAServerAnswersIs() async throws {
    try await Served.with { served in
      await #expect(throws: SocketServerError.file(path: served.path, .inUse)) {
        try await Served.server(.path(served.path)).start()
      }
      let client = try served.client()
      try await client.send(tokenGet(1))
      #expect(try await client.json()["id"] == 1)
    }
  }

  @Test("a file that is not a socket is never removed") func whatIsNoSocketIsNeverRemoved() async throws {
    try await Served.inFolder { folder in
      let path = folder + "/notes.txt"
      try "mine".write(toFile: path, atomically: true, encoding: .utf8)
      await #expect(throws: SocketServerError.file(path: path, .notASocket)) {
        try await Served.server(.path(path)).start()
      }
      #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine")
    }
  }

  @Test(
    "a failure keeps its path, and another folder is named",
    arguments: [
      (.pathTooLong(limit: 107), "the socket path /p/s has 4 bytes, 107 are possible: configure a shorter one", true),
      (.inUse, "another server answers at /p/s: stop it first, or configure another socket path", false),
      (.notASocket, "/p/s exists and is not a socket: move it away, or configure another socket path", true),
      (.unsafeFolder("/p", detail: "d"), "the folder /p is not safe for a socket: d", true),
      (.failed(path: "/p", call: "stat", code: 2), "cannot serve /p: stat: No such file or directory", false),
    ] as [(SocketFile.Failure, String, Bool)])
  func failures(_ failure: SocketFile.Failure, _ text: String, _ isConfiguration: Bool) {
    let error = SocketServerError.file(path: "/p/s", failure)
    #expect(error.description == text && error.isConfiguration == isConfiguration)
  }

  @Test("a folder that cannot be made is an error that names it") func aFolderThatCannotBeMadeIs() async throws {
    let error = await #expect(throws: SocketServerError.self) {
      try await Served.server(.path("/proc/none/s.sock")).start()
    }
    #expect(error?.description.contains("/proc/none") == true)
  }

  @Test("the file of a successor is not removed") func theFileOfASuccessorIsNot() async throws {
    try await Served.inFolder { folder in
      let path = folder + "/s.sock"
      let first = Served.server(.path(path))
      try await first.start()
      unlink(path)
      let second = Served.server(.path(path))
      try await second.start()
      await first.drain(deadline: .zero)
      let client = try RawClient(path)
      try await client.send(tokenGet(1))
      #expect(try await client.json()["id"] == 1)
      await second.drain(deadline: .zero)
    }
  }

  @Test("inherited sockets are served and their files stay") func inheritedSocketsAreServedAndTheirFiles() async throws
  {
    try await Served.inFolder { folder in
      let paths = ["/a.sock", "/b.sock"].map { folder + $0 }
      let descriptors = try paths.map { path in
        let bound = try ListeningSocket.bound(at: path, mode: 0o600, folderMode: 0o700)
        listen(bound.descriptor, 8)
        // A unit may leave it so. The loop must never wait for one client.
        _ = fcntl(bound.descriptor, F_SETFL, fcntl(bound.descriptor, F_GETFL) & ~O_NONBLOCK)
        return bound.descriptor
      }
      let server = Served.server(.inherited(descriptors))
      try await server.start()
      for descriptor in descriptors { #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0) }
      for path in paths {
        let client = try RawClient(path)
        try await client.send(tokenGet(1))
        #expect(try await client.json()["id"] == 1)
      }
      await server.drain(deadline: .zero)
      for path in paths { #expect(FileManager.default.fileExists(atPath: path)) }
    }
  }

  @Test("a descriptor that does not listen is refused") func aDescriptorThatDoesNotListenIs() async throws {
    let descriptor = open("/dev/null", O_RDONLY)
    defer { close(descriptor) }
    await #expect(throws: SocketServerError.notAListener(descriptor: descriptor)) {
      try await Served.server(.inherited([descriptor])).start()
    }
  }

  @Test("a server starts once") func aServerStartsOnce() async throws {
    try await Served.with { served in
      await #expect(throws: SocketServerError.alreadyStarted) { try await served.server.start() }
    }
  }
}
