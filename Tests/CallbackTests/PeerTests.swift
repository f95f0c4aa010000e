import Broker
import Callers
import Foundation
import Glibc
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import Callback

/// Who owns the other end of a connection, asked of this machine's kernel.
@Suite("Whose browser it is", .timeLimit(.minutes(5))) struct PeerTests {
  /// Two ends of a loopback connection.
  private struct Pair {
    var client: Int32
    var accepted: Int32
    var own: SocketAddress
    var other: SocketAddress

    /// - Parameter to: the listener's address; `from`: the family of the client's socket.
    init(_ to: SocketAddress, from family: Int32, through: SocketAddress) throws {
      let listener = socket(to.protocol == .inet ? AF_INET : AF_INET6, Int32(SOCK_STREAM.rawValue), 0)
      defer { close(listener) }
      try #require(listener >= 0 && to.withSockAddr { bind(listener, $0, socklen_t($1)) } == 0)
      try #require(listen(listener, 1) == 0)
      let bound = try PeerTests.address(listener, getsockname)
      client = socket(family, Int32(SOCK_STREAM.rawValue), 0)
      var target = through
      target.port = bound.port
      let connecting = client
      try #require(target.withSockAddr { connect(connecting, $0, socklen_t($1)) } == 0)
      accepted = accept(listener, nil, nil)
      own = try PeerTests.address(accepted, getsockname)
      other = try PeerTests.address(accepted, getpeername)
    }

    /// Asks the kernel, or reads the table; `other`: in place of the client's address.
    func owner(_ lookup: Int, other: SocketAddress? = nil) -> CallbackListener.PeerUsers.Answer {
      lookup == 0
        ? PeerTests.kernel(accepted, own, other ?? self.other)
        : TCPTable.owner(own: own, other: other ?? self.other)
    }

    func end() {
      close(client)
      close(accepted)
    }
  }

  private static func address(
    _ socket: Int32, _ read: (Int32, UnsafeMutablePointer<sockaddr>?, UnsafeMutablePointer<socklen_t>?) -> Int32
  ) throws -> SocketAddress {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let status = withUnsafeMutablePointer(to: &storage) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { read(socket, $0, &length) }
    }
    try #require(status == 0)
    return storage.ss_family == sa_family_t(AF_INET)
      ? withUnsafeBytes(of: &storage) { SocketAddress($0.load(as: sockaddr_in.self)) }
      : withUnsafeBytes(of: &storage) { SocketAddress($0.load(as: sockaddr_in6.self)) }
  }

  /// The address that the listener has, the family of the client's socket, and the address that it connects to.
  static let families: [(listener: String, family: Int32, through: String)] = [
    ("127.0.0.1", AF_INET, "127.0.0.1"), ("::1", AF_INET6, "::1"), ("127.0.0.1", AF_INET6, "::ffff:127.0.0.1"),
    ("::ffff:127.0.0.1", AF_INET, "127.0.0.1"), ("::ffff:127.0.0.1", AF_INET6, "::ffff:127.0.0.1"),
  ]

  private func pair(_ number: Int) throws -> Pair {
    let (listener, family, through) = Self.families[number]
    return try Pair(
      SocketAddress(ipAddress: listener, port: 0), from: family, through: SocketAddress(ipAddress: through, port: 0))
  }

  private static func kernel(
    _ connection: Int32, _ own: SocketAddress, _ other: SocketAddress
  ) -> CallbackListener.PeerUsers.Answer {
    let peer = own.withSockAddr { own, _ in
      other.withSockAddr { other, _ in LoopbackPeer(of: connection, own: own, other: other) }
    }
    return peer.map { .user($0.uid) } ?? .nobody
  }

  @Test("The kernel names the owner of either end, in both families and between them", arguments: 0..<5, 0..<2)
  func owner(_ number: Int, _ lookup: Int) throws {
    // The callback endpoint listens to no address that stands for both families.
    guard lookup == 0 || number < 3 else { return }
    try #require(LoopbackPeer.isAvailable)
    let pair = try pair(number)
    defer { pair.end() }
    #expect(pair.owner(lookup) == .user(getuid()))
    // A port of another process.
    var elsewhere = pair.other
    elsewhere.port = pair.own.port
    #expect(pair.owner(lookup, other: elsewhere) == .nobody)
  }

  @Test("A closed end has no owner, although its uid reads 0", arguments: 0..<2)
  func closed(_ lookup: Int) throws {
    let pair = try pair(0)
    defer { close(pair.accepted) }
    close(pair.client)
    #expect(pair.owner(lookup) == .nobody)
  }

  @Test("A half-closed end is its owner's", arguments: 0..<2)
  func halfClosed(_ lookup: Int) throws {
    let pair = try pair(0)
    defer { pair.end() }
    try #require(shutdown(pair.client, Int32(SHUT_WR)) == 0)
    #expect(pair.owner(lookup) == .user(getuid()))
  }

  @Test("Without a connection, a listener at that address is not the peer")
  func listener() throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listener) }
    let any = try SocketAddress(ipAddress: "127.0.0.1", port: 0)
    try #require(any.withSockAddr { bind(listener, $0, socklen_t($1)) } == 0 && listen(listener, 1) == 0)
    let bound = try Self.address(listener, getsockname)
    let pair = try pair(0)
    defer { pair.end() }
    #expect(
      Self.kernel(pair.accepted, try SocketAddress(ipAddress: "127.0.0.1", port: 1), bound) == .nobody)
  }

  @Test("A socket without an inode, or one that still connects, has no owner")
  func states() {
    #expect(LoopbackPeer.isOwned(inode: 7, state: 1))
    #expect(!LoopbackPeer.isOwned(inode: 0, state: 1))
    for state in [2, 3, 6, 7, 10, 12] as [UInt8] {
      #expect(!LoopbackPeer.isOwned(inode: 7, state: state))
    }
  }

  // MARK: proc_net_tcp(5)

  private static let title =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
  private static let ends = "0100007F:A2D4 0100007F:1A0A"

  private static func line(_ ends: String, _ state: String, _ uid: String, _ inode: String) -> String {
    "   5: \(ends) \(state) 00000000:00000000 00:00000000 00000000  \(uid)        0 \(inode) 1 00000000 20 4 0 10 -1\n"
  }

  static let tables: [(lines: [String], answer: CallbackListener.PeerUsers.Answer)] = [
    ([line(ends, "01", "1000", "31337")], .user(1000)),
    ([line("0100007F:A2D5 0100007F:1A0A", "01", "1", "2"), line(ends, "01", "1000", "31337")], .user(1000)),
    // The other direction is our own socket.
    ([line("0100007F:1A0A 0100007F:A2D4", "01", "990", "2")], .nobody),
    // Closed, with an arbitrary uid, before a new one at the same address.
    ([line(ends, "06", "0", "0")], .nobody),
    ([line(ends, "06", "0", "0"), line(ends, "01", "1000", "31337")], .user(1000)),
    ([line(ends, "0A", "1000", "31337")], .nobody),
    ([line(ends, "01", "x", "31337")], .nobody), ([line(ends, "01", "4294967296", "1")], .nobody),
    (["   5: \(ends)\n", "\n", "rubbish\n"], .nobody), ([], .nobody),
  ]

  @Test("The table's line with these ends, and no other, names the owner", arguments: 0..<10)
  func table(_ number: Int) throws {
    let (lines, answer) = Self.tables[number]
    #expect(TCPTable.owner(of: Self.ends, in: Array((Self.title + lines.joined()).utf8)) == answer)
  }

  @Test("Addresses are written as the kernel writes them")
  func columns() throws {
    func ends(_ own: String, _ other: String, _ file: String) throws -> String? {
      TCPTable.ends(
        own: try SocketAddress(ipAddress: own, port: 6666), other: try SocketAddress(ipAddress: other, port: 41684),
        inFile: file)
    }
    // As on little-endian machines.
    #expect(try ends("127.0.0.1", "127.0.0.1", "tcp") == Self.ends)
    let mapped = "0000000000000000FFFF00000100007F"
    #expect(try ends("127.0.0.1", "127.0.0.1", "tcp6") == "\(mapped):A2D4 \(mapped):1A0A")
    let own = "00000000000000000000000001000000"
    #expect(try ends("::1", "::1", "tcp6") == "\(own):A2D4 \(own):1A0A")
  }

  // MARK: The listener

  /// What a user of that uid gets for a request, by a program of its own.
  private func fetch(_ target: String, _ host: String, _ port: Int, as uid: UInt32) throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/setpriv")
    let literal = host.contains(":") ? "[\(host)]" : host
    let script = """
      exec 3<>/dev/tcp/\(host)/\(port)
      printf 'GET \(target) HTTP/1.1\\r\\nHost: \(literal):\(port)\\r\\n\\r\\n' >&3
      cat <&3
      """
    process.arguments = ["--reuid=\(uid)", "--clear-groups", "/bin/bash", "-c", script]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return text
  }

  private static let canBeOthers = geteuid() == 0 && access("/usr/bin/setpriv", X_OK) == 0

  @Test(
    "The browser of another uid is known by its uid, and by the owner of that", .enabled(if: canBeOthers),
    arguments: ["127.0.0.1", "::1"], [true, false])
  func otherUser(_ host: String, _ hasDiagnosis: Bool) async throws {
    let handler = ScriptedHandler()
    let users = CallbackListener.PeerUsers(
      kernel: hasDiagnosis ? CallbackListener.PeerUsers.asked : nil, table: TCPTable.owner,
      ownerOfSubordinate: { $0 == 100_005 ? 1000 : nil })
    try await withListener(handler: handler, users: users) { listener, _ in
      let port = listener.port ?? 0
      for uid in [65534, 100_005] as [UInt32] { _ = try fetch("/callback?code=c", host, port, as: uid) }
      _ = try fetch("/go/token", host, port, as: 65534)
    }
    #expect(handler.browsers == [.user(65534), .user(100_005, owner: 1000)])
    #expect(handler.links == [.init(token: "token", browser: .user(65534))])
  }

  @Test("A client that closed its end before it was accepted is unknown")
  func hurried() async throws {
    let handler = ScriptedHandler()
    let users = CallbackListener.PeerUsers(kernel: { _ in .nobody }, table: { _, _ in .user(0) })
    try await withListener(handler: handler, users: users) { _, client async throws in
      _ = try await client.request("GET", "/callback?code=c")
    }
    #expect(handler.browsers == [.unknown])
  }

  @Test("The kernel is asked before the client says anything, so who then closes its end is still known")
  func asked() async throws {
    let handler = ScriptedHandler()
    let asked = AsyncStream.makeStream(of: Void.self)
    let answers = Mutex<[CallbackListener.PeerUsers.Answer]>([.user(1000)])
    let users = CallbackListener.PeerUsers(
      kernel: { _ in
        asked.continuation.yield()
        return answers.withLock { $0.popLast() ?? .nobody }
      }, table: { _, _ in .nobody })
    try await withListener(handler: handler, users: users) { listener, client async throws in
      let connection = try await client.open()
      for await _ in asked.stream { break }
      try await connection.write("GET /callback?code=c HTTP/1.1\r\nHost: 127.0.0.1:\(listener.port ?? 0)\r\n\r\n")
      #expect(try await connection.response().status == 200)
    }
    #expect(handler.browsers == [.user(1000)])
  }
}
