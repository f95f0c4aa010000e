import CLinux
import Glibc
import Testing

@testable import Systemd

@Suite struct SocketTests {
  @Test("Only a listening Unix stream socket is taken from the manager")
  func listenerCheck() throws {
    let path = "/tmp/grantd-listener-\(getpid())"
    let stream = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    let datagram = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
    let internet = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { [stream, datagram, internet].forEach { close($0) } }
    let failures: [Int32] = [stream, datagram, internet, 0, 9999]
    for descriptor in failures {
      #expect(throws: ListenFDs.Failure.notAUnixListener(descriptor: descriptor, name: "x")) {
        try ListenFDs.listener(descriptor: descriptor, name: "x")
      }
    }
    unlink(path)
    defer { unlink(path) }
    try #require(withUnixAddress(path) { bind(stream, $0, $1) } == 0)
    try #require(listen(stream, 1) == 0)
    let taken = try ListenFDs.listener(descriptor: stream, name: "grantd")
    #expect(taken == ListenFDs.Listener(descriptor: stream, name: "grantd"))
  }

  @Test("A process that was not socket-activated has no listeners")
  func notActivated() throws {
    #expect(try ListenFDs.inherited().isEmpty)
  }

  @Test("The kernel names the peer of a socket pair: this process")
  func peer() throws {
    var pair: [Int32] = [0, 0]
    try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
    defer { pair.forEach { close($0) } }
    var peer = clinux_peer()
    #expect(clinux_peer_credentials(pair[0], &peer) == 0)
    #expect(peer.pid == getpid())
    #expect(peer.uid == getuid())
    #expect(peer.gid == getgid())

    let count = getgroups(0, nil)
    var expected = [gid_t](repeating: 0, count: Int(count))
    getgroups(count, &expected)
    var groups = [UInt32](repeating: 0, count: 65536)
    let found = clinux_peer_groups(pair[0], &groups, groups.count)
    #expect(found == Int(count))
    #expect(groups.prefix(Int(count)).sorted() == expected.sorted())
    #expect(clinux_peer_groups(pair[0], nil, 0) == Int(count))
  }

  @Test("The shim fails with errno for the credentials of a file that is not a socket")
  func noSocket() {
    var peer = clinux_peer()
    #expect(clinux_peer_credentials(9999, &peer) == -1)
    #expect(errno == EBADF)
    #expect(clinux_peer_groups(9999, nil, 0) == -1)
    #expect(clinux_peer_pidfd(9999) == -1)
  }

  @Test("A pidfd tells a living process from one that has ended")
  func pidfd() throws {
    let own = clinux_pidfd_open(getpid())
    try #require(own >= 0)
    defer { close(own) }
    #expect(clinux_pidfd_alive(own) == 1)
    #expect(clinux_pidfd_alive(9999) == -1)

    var child: pid_t = 0
    let arguments: [UnsafeMutablePointer<CChar>?] = [strdup("true"), nil]
    defer { arguments.forEach { free($0) } }
    try #require(posix_spawnp(&child, "true", nil, nil, arguments, nil) == 0)
    let other = clinux_pidfd_open(child)
    try #require(other >= 0)
    defer { close(other) }
    var status: Int32 = 0
    #expect(waitpid(child, &status, 0) == child)
    #expect(clinux_pidfd_alive(other) == 0)
  }

  @Test("An accepted connection is close-on-exec and does not block")
  func accept() throws {
    let path = "/tmp/grantd-accept-\(getpid())"
    unlink(path)
    let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    let client = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer {
      [listener, client].forEach { close($0) }
      unlink(path)
    }
    try #require(withUnixAddress(path) { bind(listener, $0, $1) } == 0)
    try #require(listen(listener, 1) == 0)
    try #require(withUnixAddress(path) { connect(client, $0, $1) } == 0)
    let accepted = clinux_accept(listener, nil, nil)
    try #require(accepted >= 0)
    defer { close(accepted) }
    #expect(fcntl(accepted, F_GETFD) & FD_CLOEXEC != 0)
    #expect(fcntl(accepted, F_GETFL) & O_NONBLOCK != 0)
  }
}
