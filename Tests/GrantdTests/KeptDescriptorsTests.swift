import Foundation
import Glibc
import Listening
import Synchronization
import Systemd
import Testing

@testable import grantd

/// The sockets that the service manager kept while no process ran.
@Suite struct KeptDescriptorsTests {
  private func opened() -> Int32 { open("/dev/null", O_RDONLY | O_CLOEXEC) }
  private func isOpen(_ descriptor: Int32) -> Bool { fcntl(descriptor, F_GETFD) >= 0 }

  /// A descriptor, and a wait for its end. Its number is not enough: another test may get it next.
  private func watched() throws -> (descriptor: Int32, isClosed: () -> Bool) {
    var ends: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    try #require(socketpair(AF_UNIX, type, 0, &ends) == 0)
    return (
      ends[1],
      { [ends] in
        var status = pollfd(fd: ends[0], events: 0, revents: 0)
        defer { close(ends[0]) }
        return poll(&status, 1, 60_000) == 1 && status.revents & Int16(POLLHUP) != 0
      }
    )
  }

  @Test("a kept socket is taken once, by its name; the rest is closed here and in the store")
  func takes() throws {
    let messages = Messages()
    let (socket, callback) = (opened(), opened())
    let (other, isClosed) = try watched()
    let kept = KeptDescriptors(
      [
        .init(descriptor: socket, name: "kept-http"), .init(descriptor: callback, name: "kept-callback-8080-v4"),
        .init(descriptor: other, name: "kept-metrics-9090-v4"),
        // A socket unit's: it stays the caller's.
        .init(descriptor: 0, name: "http"),
      ], store: messages.store)
    let http = kept.keeper("http")
    #expect(http.earlier(SocketKeeper.only) == socket && http.earlier(SocketKeeper.only) == nil)
    let loopback = kept.keeper("callback")
    #expect(loopback.earlier("8080-v6") == nil && loopback.earlier("8081-v4") == nil)
    #expect(loopback.earlier("8080-v4") == callback && loopback.earlier("8080-v4") == nil)
    #expect(kept.removeRest() == ["metrics-9090-v4"] && kept.removeRest().isEmpty)
    #expect(isClosed() && isOpen(socket) && isOpen(callback) && isOpen(0))
    #expect(messages.all == ["FDSTOREREMOVE=1\nFDNAME=kept-metrics-9090-v4"])
    close(socket)
    close(callback)
  }

  @Test("of two sockets of one name the later is taken, and the earlier closed")
  func twice() throws {
    let newer = opened()
    let (older, isClosed) = try watched()
    let kept = KeptDescriptors(
      [.init(descriptor: older, name: "kept-http"), .init(descriptor: newer, name: "kept-http")],
      store: Messages().store)
    #expect(isClosed() && kept.keeper("http").earlier(SocketKeeper.only) == newer)
    close(newer)
  }

  @Test("a process that does not listen again has the manager close all that it left, each once")
  func removes() {
    let messages = Messages()
    let kept = KeptDescriptors([], store: messages.store)
    #expect(kept.keeper("http").keep(0, SocketKeeper.only) && kept.keeper("callback").keep(0, "8080-v4"))
    kept.keeper("callback").remove("8080-v4")
    kept.removeAll()
    kept.removeAll()
    #expect(
      messages.all == [
        "FDSTORE=1\nFDNAME=kept-http", "FDSTORE=1\nFDNAME=kept-callback-8080-v4",
        "FDSTOREREMOVE=1\nFDNAME=kept-callback-8080-v4", "FDSTOREREMOVE=1\nFDNAME=kept-http",
      ])
  }

  @Test("without a manager nothing is kept")
  func alone() {
    let kept = KeptDescriptors([], store: DescriptorStore { _, _ in false })
    #expect(!kept.keeper("http").keep(0, SocketKeeper.only))
  }
}

/// The messages to the service manager (sd_notify(3)).
private final class Messages: Sendable {
  private let texts = Mutex<[String]>([])
  var all: [String] { texts.withLock { $0 } }
  var store: DescriptorStore {
    DescriptorStore { [self] text, _ in
      texts.withLock { $0.append(text) }
      return true
    }
  }
}
