import Principals

/// systemd's name for its end of the connection when it fetches a credential: the abstract address (unix(7)) of a zero
/// byte, a random number in hexadecimal, `/unit/`, the unit, `/`, the credential's id (systemd.exec(5)).
///
/// Any process can bind such an address: it names the wanted value, and proves nothing.
struct CredentialName: Hashable {
  /// The unit's name, which is its control group's name: escapes stay unchanged.
  var unit: String
  var id: String

  private static let longestUnit = 255
  /// A random number of 64 bits, whose leading zeros are not written.
  private static let longestNumber = 16
  /// The kinds of units that have credentials.
  private static let kinds = [".service", ".socket", ".mount", ".swap"]

  /// - Parameter address: the bytes of `sun_path`, as many as there are. Nil where systemd would not have made it.
  init?(_ address: some Collection<UInt8>) {
    guard address.first == 0 else { return nil }
    let parts = address.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    guard parts.count == 4, (1...Self.longestNumber).contains(parts[0].count), parts[0].allSatisfy(Self.isHexadecimal),
      parts[1].elementsEqual("unit".utf8), parts[2].allSatisfy(Self.isOfUnits)
    else { return nil }
    unit = String(decoding: parts[2], as: UTF8.self)
    id = String(decoding: parts[3], as: UTF8.self)
    guard unit.utf8.count <= Self.longestUnit, CredentialRequest.isValidID(id),
      Self.kinds.contains(where: { unit.hasSuffix($0) && unit.utf8.count > $0.utf8.count })
    else { return nil }
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte)
  }

  /// systemd.unit(5): digits, letters, and `:-_.\@`.
  private static func isOfUnits(_ byte: UInt8) -> Bool {
    (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
      || ":-_.\\@".utf8.contains(byte)
  }
}
