import BrokerSocket
import Glibc
import Testing

@Suite struct ConnectedSocketTests {
  private static let line = #"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#
  /// For data that are available already.
  private static let soon = Duration.seconds(60)
  private static let brief = Duration.milliseconds(30)

  /// A socket whose other end has sent this.
  private func pair(_ text: String) throws -> (ConnectedSocket, other: Int32) {
    var ends: [Int32] = [-1, -1]
    try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    let bytes = Array(text.utf8)
    try #require(write(ends[1], bytes, bytes.count) == bytes.count)
    return (ConnectedSocket(descriptor: ends[0]), ends[1])
  }

  @Test("a line that is looked at stays to be read; a part of one, or a longer one, is not looked at")
  func peeks() throws {
    let (socket, other) = try pair(Self.line + "\n")
    defer { close(other) }
    #expect(socket.peekLine(atMost: 10, within: Self.soon) == nil)
    #expect(socket.peekLine(atMost: 100, within: Self.soon) == Array(Self.line.utf8))
    #expect(socket.receive(atMost: 100) == Array((Self.line + "\n").utf8))
    #expect(socket.peekLine(atMost: 100, within: Self.brief) == nil)
    write(other, "{", 1)
    #expect(socket.peekLine(atMost: 100, within: Self.soon) == nil)
  }

  @Test("a wait ends in time, and returns the time left")
  func waits() throws {
    let (socket, other) = try pair("")
    var left: Duration? = Self.brief
    #expect(!socket.hasInput(within: &left) && left == .zero)
    left = .seconds(60)
    close(other)
    #expect(socket.hasInput(within: &left))
    #expect(try #require(left) > .seconds(30) && socket.receive(atMost: 1).isEmpty)
    left = nil
    #expect(socket.hasInput(within: &left) && left == nil)
  }

  @Test("receiving in time tells a late answer from the end of the connection")
  func receivesInTime() throws {
    let (socket, other) = try pair("a")
    socket.limitReceiving(Self.brief)
    #expect(socket.receiveInTime(atMost: 10) == [UInt8(ascii: "a")])
    #expect(socket.receiveInTime(atMost: 10) == nil)
    close(other)
    #expect(socket.receiveInTime(atMost: 10) == [])
  }

  @Test("a connection is left only to the same process, once")
  func left() throws {
    let (socket, other) = try pair("")
    defer { close(other) }
    #expect(LeftConnection.adopt() == nil)
    LeftConnection.leave(socket.descriptor)
    #expect(LeftConnection.adopt() == socket.descriptor)
    #expect(fcntl(socket.descriptor, F_GETFD) == FD_CLOEXEC)
    #expect(LeftConnection.adopt() == nil)
    let pipe = UnsafeMutablePointer<Int32>.allocate(capacity: 2)
    defer { pipe.deallocate() }
    try #require(Glibc.pipe(pipe) == 0)
    let wrong = [
      "", ":", "1:\(socket.descriptor)", "\(getpid())", "\(getpid()):", "\(getpid()):1", "\(getpid()):99",
      "\(getpid()):\(socket.descriptor):1", "\(getpid()):\(pipe[0])",
    ]
    for value in wrong {
      setenv("GRANTCTL_CONNECTION", value, 1)
      #expect(LeftConnection.adopt() == nil, "\(value)")
    }
    setenv("GRANTCTL_CONNECTION", "\(getpid()):\(socket.descriptor)", 1)
    LeftConnection.leave(nil)
    #expect(getenv("GRANTCTL_CONNECTION") == nil)
    close(pipe[0])
    close(pipe[1])
  }
}
