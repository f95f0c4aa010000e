import Callers
import Glibc
import NIOCore

/// The TCP sockets of this network namespace as proc_net_tcp(5) lists them, for kernels without inet_diag.
enum TCPTable {
  /// `ProcSubset=pid` hides /proc/net, and not this.
  private static let folder = "/proc/self/net"
  /// Bytes of each file that are read, some 40,000 sockets.
  static let longest = 6 << 20

  static func owner(own: SocketAddress, other: SocketAddress) -> CallbackListener.PeerUsers.Answer {
    // A client with an IPv6 socket may have connected to 127.0.0.1 by an IPv4-mapped address.
    let files = own.protocol == .inet ? ["tcp", "tcp6"] : ["tcp6"]
    for file in files {
      guard let ends = ends(own: own, other: other, inFile: file), let text = read("\(folder)/\(file)") else {
        continue
      }
      if case .user(let uid) = owner(of: ends, in: text) { return .user(uid) }
    }
    return .nobody
  }

  /// The two address columns of the client's socket.
  static func ends(own: SocketAddress, other: SocketAddress, inFile file: String) -> String? {
    let isMapped = file == "tcp6"
    guard let client = column(other, isMapped: isMapped), let listener = column(own, isMapped: isMapped) else {
      return nil
    }
    return "\(client) \(listener)"
  }

  /// - Parameter ends: as ``ends(own:other:inFile:)`` writes them.
  static func owner(of ends: String, in table: [UInt8]) -> CallbackListener.PeerUsers.Answer {
    let wanted = Array(ends.utf8)
    for line in table.split(separator: UInt8(ascii: "\n")).dropFirst() {
      // sl, local_address, rem_address, st, tx_queue:rx_queue, tr:tm->when, retrnsmt, uid, timeout, inode
      let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 10)
      guard fields.count >= 10, fields[1].count + 1 + fields[2].count == wanted.count,
        wanted.starts(with: fields[1]), wanted.dropFirst(fields[1].count + 1).elementsEqual(fields[2])
      else { continue }
      guard let state = UInt8(text(fields[3]), radix: 16), let uid = UInt32(text(fields[7])),
        let inode = UInt64(text(fields[9]))
      else { continue }
      if LoopbackPeer.isOwned(inode: inode, state: state) { return .user(uid) }
    }
    return .nobody
  }

  private static func text(_ field: ArraySlice<UInt8>) -> String { String(decoding: field, as: UTF8.self) }

  /// Words of 32 bits as this machine reads them, in hexadecimal, then the port.
  private static func column(_ address: SocketAddress, isMapped: Bool) -> String? {
    // In the form of sockaddr_in(7) and sockaddr_in6: family, port, in the second flow information, the address.
    let isV4 = address.protocol == .inet
    guard isV4 || address.protocol == .inet6, let port = address.port else { return nil }
    let words = address.withSockAddr { pointer, size in
      let bytes = UnsafeRawBufferPointer(start: pointer, count: size)
      return (0..<(isV4 ? 1 : 4)).map { bytes.loadUnaligned(fromByteOffset: (isV4 ? 4 : 8) + 4 * $0, as: UInt32.self) }
    }
    let mapping = isV4 && isMapped ? [0, 0, UInt32(bigEndian: 0x0000_ffff)] : []
    return (mapping + words).map { hexadecimal($0, 8) }.joined() + ":" + hexadecimal(UInt32(port), 4)
  }

  private static func hexadecimal(_ number: UInt32, _ digits: Int) -> String {
    let text = String(number, radix: 16, uppercase: true)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }

  /// Nil: missing, or longer than the limit.
  private static func read(_ path: String) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while bytes.count <= longest {
      let count = chunk.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count == 0 ? bytes : nil }
      bytes += chunk.prefix(count)
    }
    return nil
  }
}
