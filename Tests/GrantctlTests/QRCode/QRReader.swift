@testable import QRCodes
@testable import grantctl

/// Reads a symbol without errors, from the tables of ISO/IEC 18004 and by no code of an encoder.
struct QRReader {
  struct Unreadable: Error {
    let why: String
  }

  private(set) var text = ""
  private(set) var correction = QRCode.Correction.low
  private(set) var mask = 0
  private let size: Int
  private let isDark: (Int, Int) -> Bool
  private var version: Int { (size - 17) / 4 }

  /// Annex E, by version.
  private static let alignments = [
    [], [], [6, 18], [6, 22], [6, 26], [6, 30], [6, 34], [6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50],
    [6, 30, 54], [6, 32, 58], [6, 34, 62],
  ]
  /// Table 9: for L and M, by version: blocks, codewords of each, data codewords of each.
  private static let low = [
    [], [(1, 26, 19)], [(1, 44, 34)], [(1, 70, 55)], [(1, 100, 80)], [(1, 134, 108)], [(2, 86, 68)], [(2, 98, 78)],
    [(2, 121, 97)], [(2, 146, 116)], [(2, 86, 68), (2, 87, 69)], [(4, 101, 81)], [(2, 116, 92), (2, 117, 93)],
    [(4, 133, 107)],
  ]
  private static let medium = [
    [], [(1, 26, 16)], [(1, 44, 28)], [(1, 70, 44)], [(2, 50, 32)], [(2, 67, 43)], [(4, 43, 27)], [(4, 49, 31)],
    [(2, 60, 38), (2, 61, 39)], [(3, 58, 36), (2, 59, 37)], [(4, 69, 43), (1, 70, 44)], [(1, 80, 50), (4, 81, 51)],
    [(6, 58, 36), (2, 59, 37)], [(8, 59, 37), (1, 60, 38)],
  ]
  /// Annex C: the format bits as they are drawn, for L and M, by mask.
  private static let formats: [(QRCode.Correction, [Int])] = [
    (.low, [0x77C4, 0x72F3, 0x7DAA, 0x789D, 0x662F, 0x6318, 0x6C41, 0x6976]),
    (.medium, [0x5412, 0x5125, 0x5E7C, 0x5B4B, 0x45F9, 0x40CE, 0x4F97, 0x4AA0]),
  ]
  /// Annex D, from version 7 on.
  private static let versionBits = [0x07C94, 0x085BC, 0x09A99, 0x0A4D3, 0x0BBF6, 0x0C762, 0x0D847]

  init(size: Int, isDark: @escaping (Int, Int) -> Bool) throws {
    self.size = size
    self.isDark = isDark
    try readFormat()
    try checkVersion()
    let codewords = readCodewords()
    var data: [UInt8] = []
    for block in try blocks(of: codewords) { data += block }
    text = try Self.text(of: data, version)
  }

  init(_ code: QRCode) throws { try self.init(size: code.size, isDark: { code.isDark($0, $1) }) }

  private mutating func readFormat() throws {
    let corner = (0...5).map { (8, $0) } + [(8, 7), (8, 8), (7, 8)] + (0...5).reversed().map { ($0, 8) }
    let edges = (0...7).map { (size - 1 - $0, 8) } + (0...6).map { (8, size - 7 + $0) }
    let copies = [corner, edges].map { places in
      places.enumerated().reduce(0) { $0 | (isDark($1.element.0, $1.element.1) ? 1 << $1.offset : 0) }
    }
    for (correction, bits) in Self.formats {
      if let mask = bits.firstIndex(of: copies[0]) { (self.correction, self.mask) = (correction, mask) }
    }
    guard copies[0] == copies[1], Self.formats.contains(where: { $0.1.contains(copies[0]) }), isDark(8, size - 8)
    else { throw Unreadable(why: "the format bits are \(copies)") }
  }

  private func checkVersion() throws {
    guard version >= 7 else { return }
    let found = (0..<18).reduce(0) { $0 | (isDark(size - 11 + $1 % 3, $1 / 3) ? 1 << $1 : 0) }
    let mirrored = (0..<18).reduce(0) { $0 | (isDark($1 / 3, size - 11 + $1 % 3) ? 1 << $1 : 0) }
    guard found == Self.versionBits[version - 7], mirrored == found else { throw Unreadable(why: "the version bits") }
  }

  private func isPattern(_ x: Int, _ y: Int) -> Bool {
    if x == 6 || y == 6 || (x < 9 && y < 9) || (x > size - 9 && y < 9) || (x < 9 && y > size - 9) { return true }
    if version >= 7, (x > size - 12 && y < 6) || (x < 6 && y > size - 12) { return true }
    let centers = Self.alignments[version]
    guard let last = centers.last else { return false }
    return centers.contains { row in
      centers.contains { column in
        let isFinder = (row == 6 && (column == 6 || column == last)) || (row == last && column == 6)
        return !isFinder && abs(x - column) <= 2 && abs(y - row) <= 2
      }
    }
  }

  /// Table 10: i is the row and j the column.
  private func isMasked(_ j: Int, _ i: Int) -> Bool {
    let conditions = [
      (i + j) % 2, i % 2, j % 3, (i + j) % 3, (i / 2 + j / 3) % 2, (i * j) % 2 + (i * j) % 3,
      ((i * j) % 2 + (i * j) % 3) % 2, ((i + j) % 2 + (i * j) % 3) % 2,
    ]
    return conditions[mask] == 0
  }

  private func readCodewords() -> [UInt8] {
    var bits: [Bool] = []
    var (right, isUp) = (size - 1, true)
    while right > 0 {
      if right == 6 { right -= 1 }
      for step in 0..<size {
        let y = isUp ? size - 1 - step : step
        for x in [right, right - 1] where !isPattern(x, y) { bits.append(isDark(x, y) != isMasked(x, y)) }
      }
      isUp.toggle()
      right -= 2
    }
    return (0..<bits.count / 8).map { index in
      bits[index * 8..<index * 8 + 8].reduce(0) { $0 << 1 | ($1 ? 1 : 0) }
    }
  }

  private func blocks(of codewords: [UInt8]) throws -> [[UInt8]] {
    let table =
      switch correction {
      case .low: Self.low
      case .medium: Self.medium
      }
    let shapes = table[version].flatMap { Array(repeating: (total: $0.1, data: $0.2), count: $0.0) }
    guard codewords.count == shapes.reduce(0, { $0 + $1.total }) else { throw Unreadable(why: "\(codewords.count)") }
    var blocks = shapes.map { _ in [UInt8]() }
    var rest = codewords[...]
    for index in 0..<(shapes.map(\.data).max() ?? 0) {
      for block in shapes.indices where index < shapes[block].data { blocks[block].append(rest.removeFirst()) }
    }
    for _ in 0..<shapes[0].total - shapes[0].data {
      for block in shapes.indices { blocks[block].append(rest.removeFirst()) }
    }
    for (block, shape) in zip(blocks, shapes) {
      guard Self.isWhole(block, corrections: shape.total - shape.data) else { throw Unreadable(why: "a block") }
    }
    return zip(blocks, shapes).map { Array($0.prefix($1.data)) }
  }

  /// Powers of 2 in GF(2⁸).
  private static let powers: [Int] = (0..<255).reduce(into: [1]) { powers, _ in
    let next = (powers.last ?? 1) * 2
    powers.append(next > 255 ? next ^ 0x11D : next)
  }

  private static let logarithms: [Int] = powers.prefix(255).enumerated().reduce(into: Array(repeating: 0, count: 256)) {
    $0[$1.element] = $1.offset
  }

  /// All syndromes are zero: the block is what an encoder made.
  private static func isWhole(_ block: [UInt8], corrections: Int) -> Bool {
    (0..<corrections).allSatisfy { root in
      var sum = 0
      for (index, byte) in block.enumerated() where byte != 0 {
        let exponent = logarithms[Int(byte)] + root * (block.count - 1 - index)
        sum ^= powers[exponent % 255]
      }
      return sum == 0
    }
  }

  private static func text(of data: [UInt8], _ version: Int) throws -> String {
    let bits = data.flatMap { byte in (0..<8).reversed().map { Int(byte >> $0 & 1) } }
    func number(_ start: Int, _ count: Int) -> Int { bits[start..<start + count].reduce(0) { $0 << 1 | $1 } }
    let countBits = version <= 9 ? 8 : 16
    let count = number(4, countBits)
    guard number(0, 4) == 4, 4 + countBits + count * 8 <= bits.count else { throw Unreadable(why: "the mode") }
    let end = 4 + countBits + count * 8
    let bytes = stride(from: 4 + countBits, to: end, by: 8).map { UInt8(number($0, 8)) }
    // A terminator of four zeros, as far as there is room, zeros up to a byte, and 11101100 00010001 by turns.
    let afterwards = stride(from: (min(end + 4, bits.count) + 7) / 8 * 8, to: bits.count, by: 8).map { number($0, 8) }
    guard bits[end..<min((end + 11) / 8 * 8, bits.count)].allSatisfy({ $0 == 0 }),
      afterwards.enumerated().allSatisfy({ $1 == ($0 % 2 == 0 ? 0xEC : 0x11) })
    else { throw Unreadable(why: "the padding") }
    return String(decoding: bytes, as: UTF8.self)
  }
}
