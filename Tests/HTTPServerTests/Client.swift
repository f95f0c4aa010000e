import Glibc
import NIOCore
import NIOPosix
import Testing

@testable import HTTPServer

/// A socket that is connected there.
func connected(to address: LocalListener) throws -> Int32 {
  let (family, code): (Int32, (Int32) -> Int32) =
    switch address {
    case .loopback(_, let port):
      (
        AF_INET,
        { descriptor in
          var address = sockaddr_in()
          address.sin_family = sa_family_t(AF_INET)
          address.sin_port = in_port_t(port).bigEndian
          address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
          return withBytes(of: &address) { connect(descriptor, $0, $1) }
        }
      )
    case .unix(let path):
      (
        AF_UNIX,
        { descriptor in
          var address = sockaddr_un()
          address.sun_family = sa_family_t(AF_UNIX)
          withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
          return withBytes(of: &address) { connect(descriptor, $0, $1) }
        }
      )
    }
  let descriptor = socket(family, Int32(SOCK_STREAM.rawValue), 0)
  try #require(code(descriptor) == 0)
  limitWait(of: descriptor)
  return descriptor
}

/// A test that waits longer has failed.
private func limitWait(of descriptor: Int32) {
  var patience = timeval(tv_sec: 60, tv_usec: 0)
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
}

/// A connection that no server has accepted, and its client's socket.
func accepted(
  on loop: any EventLoop, _ limits: HTTPServer.Limits
) async throws -> (channel: any Channel, client: Int32) {
  var ends: [CInt] = [-1, -1]
  let code = socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0, &ends)
  try #require(code == 0)
  _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
  limitWait(of: ends[1])
  let channel = try await ClientBootstrap(group: loop)
    .channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(IncomingBytes(limits))
      }
    }
    .channelOption(.maxMessagesPerRead, value: 1)
    .channelOption(.autoRead, value: false)
    .channelOption(.allowRemoteHalfClosure, value: true)
    .withConnectedSocket(ends[0]).get()
  return (channel, ends[1])
}

private func withBytes<Address>(
  of address: inout Address, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
) -> Int32 {
  withUnsafePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<Address>.size)) }
  }
}

/// Sends all of it, and returns the received bytes until the server closes.
///
/// - Parameter endsOutput: no more is sent, and the output is closed.
func exchange(_ text: String, with address: LocalListener, endsOutput: Bool = false) throws -> String {
  let descriptor = try connected(to: address)
  defer { close(descriptor) }
  let bytes = Array(text.utf8)
  var sent = 0
  var answer: [UInt8] = []
  var part = [UInt8](repeating: 0, count: 65_536)
  // What is echoed is read while the rest is sent.
  while sent < bytes.count {
    let count = bytes[sent...].withUnsafeBytes {
      send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
    }
    if count > 0 { sent += count } else if errno != EAGAIN { break }
    let read = recv(descriptor, &part, part.count, Int32(MSG_DONTWAIT))
    if read > 0 { answer += part.prefix(read) }
  }
  if endsOutput { shutdown(descriptor, Int32(SHUT_WR)) }
  while case let count = recv(descriptor, &part, part.count, 0), count > 0 { answer += part.prefix(count) }
  return String(decoding: answer, as: UTF8.self)
}
