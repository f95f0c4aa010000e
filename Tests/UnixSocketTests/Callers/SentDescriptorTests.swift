import BrokerAPI
import CLinux
import Dispatch
import Glibc
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import Callers
@testable import UnixSocket

/// Clients that send descriptors along with their bytes (SCM_RIGHTS): closing one may take as long as its sender likes.
@Suite(.timeLimit(.minutes(5))) struct SentDescriptorTests {
  enum Way: CaseIterable {
    case read, unread, urgent
  }

  /// Since Linux 6.16.
  private static let areRefused: Bool = {
    let any = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(any) }
    return clinux_refuse_descriptors(any) == 0
  }()

  @Test(
    "no process can send a descriptor to either socket if the kernel can refuse it",
    .enabled(if: areRefused, "this kernel passes descriptors to any receiver"))
  func refused() async throws {
    try await Served.with { served in
      let client = try served.client()
      try await served.turn(for: client)
      #expect(try SlowToClose().send(over: client.descriptor) == false && errno == EPERM)
      try await served.turn(for: client)
    }
    try await Served.inFolder { folder in
      let server = CredentialServer(
        endpoint: .path(folder + "/c.sock"), folderMode: 0o700, manager: .system, eventLoop: Served.group.next(),
        logger: LoggedLines().logger(), onWithheld: { _ in }, source: { _ in .success(SecretText("t")) })
      try await server.start()
      let client = try RawClient(folder + "/c.sock")
      #expect(try SlowToClose().send(over: client.descriptor) == false && errno == EPERM)
      _ = try await client.linesToEnd()
      await server.drain(deadline: .zero)
    }
  }

  @Test("a descriptor sent before the server took over its socket delays no client") func inherited() async throws {
    try await Served.inFolder { folder in
      let socket = try ListeningSocket.bound(at: folder + "/s.sock", mode: 0o600, folderMode: 0o700)
      try #require(listen(socket.descriptor, 100) == 0)
      let slow = try SlowToClose()
      defer { slow.release() }
      let sender = try RawClient(folder + "/s.sock")
      try #require(slow.send(over: sender.descriptor))
      let begun = ContinuousClock.now
      let server = Served.server(.inherited([socket.descriptor]))
      try await server.start()
      let other = try RawClient(folder + "/s.sock")
      try await other.send(tokenGet(1))
      #expect(try await other.json()["id"] == 1)
      #expect(ContinuousClock.now - begun < SlowToClose.time / 2)
      let told = try await sender.linesToEnd()
      #expect(told.count == 1 && told[0].contains("accepts no descriptors"), "\(told)")
      slow.release()
      await server.drain(deadline: .zero)
    }
  }

  @Test("requests before a sent descriptor are answered") func answersBefore() async throws {
    let system = SystemCalls(refuseDescriptors: { _ in false })
    try await Served.with(system: system) { served in
      let slow = try SlowToClose()
      defer { slow.release() }
      let sender = try served.client()
      try await sender.send(call(1, "wait"))
      try await eventually("it runs") { served.dispatcher.seen.withLock { $0.running } == 1 }
      try #require(slow.send(over: sender.descriptor))
      #expect(try await sender.line().contains("accepts no descriptors"))
      served.dispatcher.gate.open()
      let rest = try await sender.linesToEnd()
      #expect(rest.count == 1 && rest[0].contains(#""id":1"#), "\(rest)")
    }
  }

  @Test("the close of a socket that lingers is interrupted") func interrupted() async throws {
    let system = SystemCalls(refuseDescriptors: { _ in false })
    try await Served.with(system: system) { served in
      let slow = try SlowToClose()
      defer { slow.release() }
      var sender: RawClient? = try served.client()
      try await served.turn(for: try #require(sender))
      try #require(slow.send(over: try #require(sender).descriptor))
      let begun = ContinuousClock.now
      sender = nil
      try await eventually("its place is free") { served.server.connectionCount == 0 }
      #expect(ContinuousClock.now - begun < SlowToClose.time / 2)
    }
  }

  @Test(
    "without that refusal, closing a sent descriptor delays no client, read or not",
    arguments: Way.allCases)
  func delaysNobody(way: Way) async throws {
    let closes = HeldCloses()
    defer { closes.release() }
    let system = SystemCalls(refuseDescriptors: { _ in false }, closeSlowly: closes.close)
    try await Served.with({ $0.requestsInFlight = 1 }, system: system) { served in
      let other = try served.client()
      try await served.turn(for: other)
      let slow = try SlowToClose()
      defer { slow.release() }
      var sender: RawClient? = try served.client()
      if way == .unread {
        try await sender?.send(call(1, "wait"))
        try await eventually("it runs") { served.dispatcher.seen.withLock { $0.running } == 1 }
      }
      let socket = try #require(sender?.descriptor)
      // Till the last copy is the server's.
      try await served.server.holdingUp {
        try #require(slow.send(over: socket, urgently: way == .urgent))
        if way == .urgent { _ = sender?.sendSome([0x20]) }
        if way == .unread { sender = nil }
      }
      let begun = ContinuousClock.now
      for _ in 0..<20 {
        try await served.turn(for: other)
        try await Task.sleep(for: .milliseconds(10))
      }
      #expect(ContinuousClock.now - begun < SlowToClose.time / 2)
      // It has a descriptor as long as that lasts, and its place.
      #expect(served.server.connectionCount == 2)
      served.dispatcher.gate.open()
      closes.release()
      try await eventually("its place is free") { served.server.connectionCount == 1 }
    }
  }

  @Test("a user with too many connections that wait to be closed is refused, and no other user is")
  func waitingToBeClosed() async throws {
    let (users, closes) = (Users(), HeldCloses())
    defer { closes.release() }
    var system = users.system
    system.refuseDescriptors = { _ in false }
    system.closeSlowly = closes.close
    try await Served.with(system: system) { served in
      users.state.withLock { $0.uid = 1000 }
      let count = Closer.threadsOfUser + Closer.waitingOfUser
      try await served.server.holdingUp {
        for _ in 0..<count {
          let client = try served.client()
          let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
          defer { close(null) }
          try #require(sendDescriptor(null, over: client.descriptor))
        }
      }
      try await eventually("all were accepted") { users.state.withLock { $0.connected } == count }
      try await eventually("the threads are busy") { closes.begun == Closer.threadsOfUser }
      let told = try await users.client(1000, served).linesToEnd()
      #expect(told.count == 1 && told[0].contains("too many of its connections wait to be closed"), "\(told)")
      for uid in [2000, 0] as [UInt32] { try await served.turn(for: try await users.client(uid, served)) }
      #expect(closes.begun == Closer.threadsOfUser)
      closes.release()
      try await eventually("all are closed") { closes.ended == count }
      try await served.turn(for: try await users.client(1000, served))
    }
  }
}

/// close(2) calls that wait until they are released.
final class HeldCloses: Sendable {
  private struct State {
    var begun = 0
    var ended = 0
  }

  private let state = Mutex(State())
  private let released = DispatchSemaphore(value: 0)

  var begun: Int { state.withLock { $0.begun } }
  var ended: Int { state.withLock { $0.ended } }

  @Sendable func close(_ socket: Int32) {
    wait()
    Glibc.close(socket)
    state.withLock { $0.ended += 1 }
  }

  /// The same for the number of no descriptor.
  @Sendable func closeNothing(_: Int32) {
    wait()
    state.withLock { $0.ended += 1 }
  }

  private func wait() {
    state.withLock { $0.begun += 1 }
    released.wait()
    // For the next one.
    released.signal()
  }

  func release() { released.signal() }
}

/// A TCP socket with unread output, which lingers when it is closed.
final class SlowToClose {
  static let time = Duration.seconds(30)

  private var descriptor: Int32
  private var peer: Int32

  init() throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(listener) }
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = descriptor
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        guard bind(listener, address, length) == 0, listen(listener, 1) == 0 else { return Int32(-1) }
        return getsockname(listener, address, &length) == 0 ? connect(descriptor, address, length) : -1
      }
    }
    peer = accept(listener, nil, nil)
    try #require(code == 0 && peer >= 0)
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    let bytes = [UInt8](repeating: 0, count: 65536)
    while Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0 {}
    _ = fcntl(descriptor, F_SETFL, 0)
    var waiting = linger(l_onoff: 1, l_linger: Int32(Self.time.components.seconds))
    let size = socklen_t(MemoryLayout<linger>.size)
    try #require(setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &waiting, size) == 0)
  }

  deinit {
    release()
    if descriptor >= 0 { close(descriptor) }
  }

  /// Closing it takes no time any more.
  func release() {
    if peer >= 0 { close(peer) }
    peer = -1
  }

  /// With one byte; the last copy is then the receiver's. False: the kernel refused it (errno).
  func send(over socket: Int32, urgently: Bool = false) -> Bool {
    guard sendDescriptor(descriptor, over: socket, urgently: urgently) else { return false }
    close(descriptor)
    descriptor = -1
    return true
  }
}

/// With one byte. False: the kernel refused it (errno).
func sendDescriptor(_ descriptor: Int32, over socket: Int32, urgently: Bool = false) -> Bool {
  let control = UnsafeMutableRawBufferPointer.allocate(byteCount: 24, alignment: 8)
  defer { control.deallocate() }
  control.initializeMemory(as: UInt8.self, repeating: 0)
  // CMSG_LEN(4).
  control.storeBytes(of: 20, toByteOffset: 0, as: Int.self)
  control.storeBytes(of: SOL_SOCKET, toByteOffset: 8, as: Int32.self)
  control.storeBytes(of: Int32(SCM_RIGHTS), toByteOffset: 12, as: Int32.self)
  control.storeBytes(of: descriptor, toByteOffset: 16, as: Int32.self)
  var byte = UInt8(ascii: " ")
  let sent = withUnsafeMutablePointer(to: &byte) { byte in
    var piece = iovec(iov_base: byte, iov_len: 1)
    return withUnsafeMutablePointer(to: &piece) { piece in
      var message = msghdr()
      message.msg_iov = piece
      message.msg_iovlen = 1
      message.msg_control = control.baseAddress
      message.msg_controllen = control.count
      return sendmsg(socket, &message, Int32(MSG_NOSIGNAL) | (urgently ? Int32(MSG_OOB) : 0))
    }
  }
  return sent == 1
}
