import BrokerAPI
import Foundation
import Glibc
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

  @Test("a folder that others may write to, or that is another user's, is refused", arguments: [0o777, 0o775, 0o755])
  func foreignFolder(mode: UInt32) async throws {
    try await Served.inFolder { folder in
      let (path, isForeign) = (folder + "/shared", mode == 0o755)
      mkdir(path, mode)
      chmod(path, mode)
      // Only root can give something away.
      if isForeign { guard chown(path, 4242, 4242) == 0 else { return } }
      let detail = isForeign ? "it belongs to user 4242" : "others may write there (mode \(String(mode, radix: 8)))"
      await #expect(throws: SocketServerError.unsafeFolder(path: path, detail: detail)) {
        try await Served.server(.path(path + "/s.sock")).start()
      }
      if isForeign { chown(path, geteuid(), getegid()) }
      chmod(path, isForeign ? 0o755 : mode | 0o1000)
      let server = Served.server(.path(path + "/s.sock"))
      try await server.start()
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
      await #expect(throws: SocketServerError.inUse(path: served.path)) {
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
      await #expect(throws: SocketServerError.notASocket(path: path)) {
        try await Served.server(.path(path)).start()
      }
      #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine")
    }
  }

  @Test("a path that no socket can have is refused with the limit", arguments: [107, 108, 300])
  func aPathThatNoSocketCanHave(length: Int) async throws {
    try await Served.inFolder { folder in
      let path = folder + "/" + String(repeating: "p", count: length - folder.utf8.count - 1)
      let server = Served.server(.path(path))
      if length <= 107 {
        try await server.start()
        await server.drain(deadline: .zero)
      } else {
        await #expect(throws: SocketServerError.pathTooLong(path: path, limit: 107)) { try await server.start() }
      }
    }
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
