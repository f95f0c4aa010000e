import BrokerAPI
import Foundation
import Glibc
import Principals
import Synchronization
import TestSupport
import Testing

@testable import UnixSocket

/// Holds descriptors between two servers, as the service manager does.
private final class Holder: Sendable {
  private let held = Mutex<Int32?>(nil)
  let forgotten = Mutex(0)

  var descriptor: Int32? { held.withLock { $0 } }

  /// What the next server gets, and may hold again.
  func keeper() -> SocketServer.SocketKeeper {
    SocketServer.SocketKeeper(
      earlier: descriptor.map { fcntl($0, F_DUPFD_CLOEXEC, 0) },
      keep: { [self] descriptor in
        held.withLock { $0 = fcntl(descriptor, F_DUPFD_CLOEXEC, 0) }
        return true
      },
      forget: { [self] in
        if let descriptor = held.withLock({ $0.take() }) { close(descriptor) }
        forgotten.withLock { $0 += 1 }
      })
  }

  deinit { if let descriptor { close(descriptor) } }
}

@Suite struct SocketKeeperTests {
  private func server(_ path: String, _ holder: Holder, mode: UInt32 = 0o600) -> SocketServer {
    var configuration = SocketServer.Configuration(endpoint: .path(path), mode: mode)
    configuration.keeper = holder.keeper()
    return Served.server(configuration)
  }

  private func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

  private func mode(_ path: String) -> UInt32 {
    var status = stat()
    return lstat(path, &status) == 0 ? status.st_mode & 0o777 : 0
  }

  @Test("who connects between two servers is answered by the second, and the socket has its mode")
  func whoConnectsBetweenTwoServersIs() async throws {
    try await Served.inFolder { folder in
      let (path, holder) = (folder + "/s.sock", Holder())
      let first = server(path, holder)
      try await first.start()
      var listening: Int32 = 0
      var length = socklen_t(MemoryLayout<Int32>.size)
      getsockopt(try #require(holder.descriptor), SOL_SOCKET, SO_ACCEPTCONN, &listening, &length)
      #expect(listening == 1)
      await first.drain(deadline: .zero)
      #expect(exists(path))
      let client = try RawClient(path)
      try await client.send(tokenGet(1))
      let second = server(path, holder, mode: 0o660)
      try await second.start()
      #expect(try await client.json()["id"] == 1)
      #expect(mode(path) == 0o660)
      await second.drain(deadline: .zero)
      #expect(holder.forgotten.withLock { $0 } == 0)
    }
  }

  @Test("a kept socket of another path goes with its file") func aKeptSocketOfAnotherPathGoes() async throws {
    try await Served.inFolder { folder in
      let (old, new, holder) = (folder + "/old.sock", folder + "/new.sock", Holder())
      let first = server(old, holder)
      try await first.start()
      await first.drain(deadline: .zero)
      let second = server(new, holder)
      try await second.start()
      #expect(!exists(old) && exists(new))
      #expect(holder.forgotten.withLock { $0 } == 1)
      let client = try RawClient(new)
      try await client.send(tokenGet(1))
      #expect(try await client.json()["id"] == 1)
      await second.drain(deadline: .zero)
      #expect(exists(new))
    }
  }

  @Test("a kept socket whose file was removed is bound again") func aKeptSocketWhoseFileIsGone() async throws {
    try await Served.inFolder { folder in
      let (path, holder) = (folder + "/s.sock", Holder())
      let first = server(path, holder)
      try await first.start()
      await first.drain(deadline: .zero)
      unlink(path)
      let second = server(path, holder)
      try await second.start()
      let client = try RawClient(path)
      try await client.send(tokenGet(1))
      #expect(try await client.json()["id"] == 1)
      #expect(holder.forgotten.withLock { $0 } == 1)
      await second.drain(deadline: .zero)
    }
  }

  @Test("an abandoned socket is replaced") func whatWasLeftBehindWhenNobody()
    async throws
  {
    try await Served.inFolder { folder in
      let path = folder + "/s.sock"
      do {
        let holder = Holder()
        let first = server(path, holder)
        try await first.start()
        await first.drain(deadline: .zero)
      }
      #expect(exists(path))
      let second = Served.server(.path(path))
      try await second.start()
      let client = try RawClient(path)
      try await client.send(tokenGet(1))
      #expect(try await client.json()["id"] == 1)
      await second.drain(deadline: .zero)
      #expect(!exists(path))
    }
  }
}
