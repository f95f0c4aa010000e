import Testing

@testable import SystemEvents

/// Netlink messages as the kernel writes them, in the machine's byte order.
private enum Netlink {
  static func bytes(_ number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number) { Array($0) } }

  static func message(_ type: UInt16, _ body: [UInt8]) -> [UInt8] {
    let length = 16 + body.count
    return bytes(UInt32(length)) + bytes(type) + bytes(UInt16(0)) + bytes(UInt32(0)) + bytes(UInt32(0)) + body
      + [UInt8](repeating: 0, count: (4 - length % 4) % 4)
  }

  static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
    bytes(UInt16(4 + value.count)) + bytes(type) + value + [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
  }

  static func link(_ index: UInt32, flags: UInt32, type: UInt16 = 16) -> [UInt8] {
    message(type, [0, 0] + bytes(UInt16(1)) + bytes(index) + bytes(flags) + bytes(UInt32(0)))
  }

  static func address(
    _ index: UInt32, _ address: [UInt8], scope: UInt8 = 0, flags: UInt32? = nil, type: UInt16 = 20
  ) -> [UInt8] {
    let extra = flags.map { attribute(8, bytes($0)) } ?? []
    let family: UInt8 = address.count == 4 ? 2 : 10
    return message(type, [family, 24, 0x80, scope] + bytes(index) + attribute(1, address) + extra)
  }

  static func route(
    _ index: UInt32, destination: UInt8 = 0, kind: UInt8 = 1, gateway: [UInt8] = [10, 0, 0, 1], type: UInt16 = 24
  ) -> [UInt8] {
    let body: [UInt8] = [2, destination, 0, 0, 254, 3, 0, kind] + bytes(UInt32(0))
    return message(type, body + attribute(4, bytes(index)) + attribute(5, gateway))
  }
}

@Suite("The kernel's messages of its network")
struct RouteMessageTests {
  private static let up: UInt32 = 0x1_0043

  @Test(
    "say what matters here",
    arguments: [
      (Netlink.link(3, flags: up), .link(index: 3, isUp: true)),
      (Netlink.link(3, flags: 0x1003), .link(index: 3, isUp: false)),
      (Netlink.link(3, flags: up | 0x8), .link(index: 3, isUp: false)),
      (Netlink.link(3, flags: up, type: 17), .link(index: 3, isUp: false)),
      (Netlink.address(3, [10, 0, 0, 7]), .address(index: 3, address: [2, 10, 0, 0, 7], isThere: true)),
      (Netlink.address(3, [10, 0, 0, 7], type: 21), .address(index: 3, address: [2, 10, 0, 0, 7], isThere: false)),
      (Netlink.address(3, [127, 0, 0, 1], scope: 254), nil),
      (Netlink.address(3, [169, 254, 0, 1], scope: 253), nil),
      (Netlink.address(3, v6, flags: 0x80), .address(index: 3, address: [10] + v6, isThere: true)),
      // It is unusable until the kernel has checked that no other machine has it.
      (Netlink.address(3, v6, flags: 0xc0), .address(index: 3, address: [10] + v6, isThere: false)),
      (
        Netlink.route(3),
        .defaultRoute(index: 3, key: [2, 254, 10, 0, 0, 1], isThere: true)
      ),
      (Netlink.route(3, type: 25), .defaultRoute(index: 3, key: [2, 254, 10, 0, 0, 1], isThere: false)),
      (Netlink.route(3, destination: 24), nil),
      // Unreachable.
      (Netlink.route(3, kind: 7), nil),
      (Netlink.message(3, [0, 0, 0, 0]), .end), (Netlink.message(2, [0, 0, 0, 0]), .end),
      (Netlink.message(68, [1, 2, 3, 4]), nil),
    ] as [([UInt8], RouteMessage?)])
  func meaning(datagram: [UInt8], message: RouteMessage?) {
    #expect(RouteMessage.parse(datagram) == (message.map { [$0] } ?? []))
    // The same behind another one.
    let pair = RouteMessage.parse(Netlink.link(9, flags: Self.up) + datagram)
    #expect(pair == [.link(index: 9, isUp: true)] + (message.map { [$0] } ?? []))
  }

  private static let v6: [UInt8] = [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [1]

  @Test("that are cut short, or lie about their length, break nothing")
  func broken() {
    let whole = Netlink.address(3, Self.v6, flags: 0x80) + Netlink.route(3) + Netlink.link(1, flags: Self.up)
    for length in 0...whole.count { _ = RouteMessage.parse(Array(whole.prefix(length))) }
    for position in whole.indices {
      for value: UInt8 in [0, 1, 3, 4, 15, 17, 0x7f, 0xff] {
        var changed = whole
        changed[position] = value
        #expect(RouteMessage.parse(changed).count <= 3 + whole.count / 16)
      }
    }
  }

  @Test("are reported at an appearance, and not at a repetition")
  func news() {
    var view = NetworkView()
    func heard(_ message: RouteMessage) -> Bool { view.update(with: message) }
    let address = RouteMessage.address(index: 3, address: [2, 10, 0, 0, 7], isThere: true)
    let route = RouteMessage.defaultRoute(index: 3, key: [2, 254], isThere: true)
    let link = RouteMessage.link(index: 3, isUp: true)
    for message in [link, address, route] {
      #expect(heard(message))
      #expect(!heard(message))
    }
    #expect(!heard(.address(index: 3, address: [2, 10, 0, 0, 7], isThere: false)))
    #expect(heard(address))
    #expect(heard(.address(index: 4, address: [2, 10, 0, 0, 7], isThere: true)))
    // With a link go its addresses and routes, of which the kernel does not always tell.
    #expect(!heard(.link(index: 3, isUp: false)))
    for message in [link, address, route] { #expect(heard(message)) }
    #expect(!heard(.address(index: 4, address: [2, 10, 0, 0, 7], isThere: true)))
  }

  @Test("are remembered up to a limit")
  func limit() {
    var view = NetworkView()
    func heard(_ message: RouteMessage) -> Bool { view.update(with: message) }
    for index in 0..<UInt32(NetworkView.limit) {
      #expect(heard(.address(index: index, address: [], isThere: true)))
    }
    let beyond = RouteMessage.address(index: .max, address: [], isThere: true)
    #expect(heard(beyond))
    #expect(heard(beyond))
    #expect(!heard(.address(index: 7, address: [], isThere: true)))
  }
}
