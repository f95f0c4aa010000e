/// One message of the kernel about its network (rtnetlink(7)), as far as it matters here.
enum RouteMessage: Equatable {
  /// Whether it is up and has a carrier; nil: it was removed. The loopback link is never up.
  case link(index: UInt32, isUp: Bool)
  /// A usable global address, or one that is unusable or was removed.
  case address(index: UInt32, address: [UInt8], isThere: Bool)
  /// `key`: family, table, gateway and metric.
  case defaultRoute(index: UInt32, key: [UInt8], isThere: Bool)
  /// The answer to a question is complete, or is an error.
  case end

  /// The content of a datagram. Truncated and irrelevant parts are omitted.
  static func parse(_ datagram: [UInt8]) -> [RouteMessage] {
    var messages: [RouteMessage] = []
    var rest = Words(datagram[...])
    while let length = rest.u32(0), length >= 16, Int(length) <= rest.count, let type = rest.u16(4) {
      if let message = parse(type: type, Words(rest.bytes(16, Int(length)))) { messages.append(message) }
      // Each begins at a multiple of four.
      rest = Words(rest.bytes(min((Int(length) + 3) & ~3, rest.count), rest.count))
    }
    return messages
  }

  private static func parse(type: UInt16, _ body: Words) -> RouteMessage? {
    switch type {
    case 2, 3: .end
    case 16, 17: link(body, isThere: type == 16)
    case 20, 21: address(body, isThere: type == 20)
    case 24, 25: route(body, isThere: type == 24)
    default: nil
    }
  }

  /// `struct ifinfomsg`: family, type, index, flags.
  private static func link(_ body: Words, isThere: Bool) -> RouteMessage? {
    guard let index = body.u32(4), let flags = body.u32(8) else { return nil }
    let (up, loopback, running, lowerUp) = (UInt32(0x1), UInt32(0x8), UInt32(0x40), UInt32(0x10000))
    let isUp = isThere && flags & (up | running | lowerUp) == up | running | lowerUp && flags & loopback == 0
    return .link(index: index, isUp: isUp)
  }

  /// `struct ifaddrmsg`: family, prefix length, flags, scope, index.
  private static func address(_ body: Words, isThere: Bool) -> RouteMessage? {
    guard let family = body.u8(0), let shortFlags = body.u8(2), let scope = body.u8(3), let index = body.u32(4) else {
      return nil
    }
    let attributes = body.attributes(from: 8)
    // IFA_LOCAL, IFA_ADDRESS; RT_SCOPE_UNIVERSE
    guard scope == 0, let address = attributes[2] ?? attributes[1] else { return nil }
    let flags = attributes[8].flatMap { Words($0).u32(0) } ?? UInt32(shortFlags)
    // IFA_F_TENTATIVE, IFA_F_DADFAILED: not yet, and never, in use.
    let isUsable = flags & (0x40 | 0x08) == 0
    return .address(index: index, address: [family] + address, isThere: isThere && isUsable)
  }

  /// `struct rtmsg`: family, destination's length, source's length, TOS, table, protocol, scope, type, flags.
  private static func route(_ body: Words, isThere: Bool) -> RouteMessage? {
    guard let family = body.u8(0), let destination = body.u8(1), let table = body.u8(4), let type = body.u8(7),
      // RTN_UNICAST
      destination == 0, type == 1
    else { return nil }
    // RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_TABLE
    let attributes = body.attributes(from: 12)
    let index = attributes[4].flatMap { Words($0).u32(0) } ?? 0
    let key = [family, table] + (attributes[15] ?? []) + (attributes[6] ?? []) + (attributes[5] ?? [])
    return .defaultRoute(index: index, key: key, isThere: isThere)
  }
}

/// Bytes in the machine's order, read with their bounds.
private struct Words {
  private let base: ArraySlice<UInt8>

  init(_ bytes: ArraySlice<UInt8>) { base = bytes }

  var count: Int { base.count }

  func bytes(_ from: Int, _ to: Int) -> ArraySlice<UInt8> { base.dropFirst(from).prefix(max(0, to - from)) }

  func u8(_ offset: Int) -> UInt8? { offset < count ? base[base.startIndex + offset] : nil }
  func u16(_ offset: Int) -> UInt16? { number(offset) }
  func u32(_ offset: Int) -> UInt32? { number(offset) }

  private func number<Number: FixedWidthInteger>(_ offset: Int) -> Number? {
    let size = MemoryLayout<Number>.size
    guard offset + size <= count else { return nil }
    return withUnsafeTemporaryAllocation(of: Number.self, capacity: 1) { space in
      UnsafeMutableRawBufferPointer(space).copyBytes(from: bytes(offset, offset + size))
      return space[0]
    }
  }

  /// By type (`struct rtattr`: length, type).
  func attributes(from offset: Int) -> [UInt16: ArraySlice<UInt8>] {
    var found: [UInt16: ArraySlice<UInt8>] = [:]
    var at = offset
    while let length = u16(at), length >= 4, at + Int(length) <= count, let type = u16(at + 2) {
      found[type & 0x3fff] = bytes(at + 4, at + Int(length))
      at += (Int(length) + 3) & ~3
    }
    return found
  }
}
