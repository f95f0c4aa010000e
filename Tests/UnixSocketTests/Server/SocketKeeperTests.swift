import BrokerAPI
import Foundation
import Glibc
import Listening
import Principals
import TestSupport
import Testing

@testable import UnixSocket

extension SocketHolder {
  fileprivate var keeper: SocketKeeper {
    SocketKeeper(earlier: { self.earlier($0) }, keep: { self.keep($0, $1) }, remove: { self.remove($0) })
  }
}

@Suite struct SocketKeeperTests {
  private func server(_ path: String, _ holder: SocketHolder, mode: UInt32 = 0o600) -> SocketServer {
    var configuration = SocketServer.Configuration(endpoint: .path(path), mode: mode)
    configuration.keeper = holder.keeper
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
      let (path, holder) = (folder + "/s.sock", SocketHolder())
      let first = server(path, holder)
      try await first.start()
      var listening: Int32 = 0
      var length = socklen_t(MemoryLayout<Int32>.size)
      getsockopt(try #require(holder.descriptor(SocketKeeper.only)), SOL_SOCKET, SO_ACCEPTCONN, &listening, &length)
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
      #expect(holder.removals == 0)
    }
  }

  @Test("a kept socket of another path goes with its file") func aKeptSocketOfAnotherPathGoes() async throws {
    try await Served.inFolder { folder in
      let (old, new, holder) = (folder + "/old.sock", folder + "/new.sock", SocketHolder())
      let first = server(old, holder)
      try await first.start()
      await first.drain(deadline: .zero)
      let second = server(new, holder)
      try await second.start()
      #expect(!exists(old) && exists(new))
      #expect(holder.removals == 1)
      let client = try RawClient(new)
      try await client.send(tokenGet(1))
      #expect(try await client.json()["id"] == 1)
      await second.drain(deadline: .zero)
      #expect(exists(new))
    }
  }

  @Test("a kept socket whose file was removed is bound again") func aKeptSocketWhoseFileIsGone() async throws {
    try await Served.inFolder { folder in
      let (path, holder) = (folder + "/s.sock", SocketHolder())
      let first = server(path, holder)
      try await first.start()
      await first.drain(deadline: .zero)
      unlink(path)
      let second = server(path, holder)
      try await second.start()
      let client = try RawClient(path)
      try await client.send(tokenGet(1))
      #expect(try await client.json()["id"] == 1)
      #expect(holder.removals == 1)
      await second.drain(deadline: .zero)
    }
  }

  @Test("an abandoned socket is replaced") func whatWasLeftBehindWhenNobody()
    async throws
  {
    try await Served.inFolder { folder in
      let path = folder + "/s.sock"
      do {
        let holder = SocketHolder()
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
