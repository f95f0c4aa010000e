/// How the codewords of a version are divided into blocks, each with its own error correction (ISO/IEC 18004 §7.5, §7.6).
struct QRBlocks {
  /// By version from 1 on (table 9): codewords of error correction in each block, and blocks.
  private static let low = [
    (7, 1), (10, 1), (15, 1), (20, 1), (26, 1), (18, 2), (20, 2), (24, 2), (30, 2), (18, 4), (20, 4), (24, 4), (26, 4),
  ]
  private static let medium = [
    (10, 1), (16, 1), (26, 1), (18, 2), (24, 2), (16, 4), (18, 4), (22, 4), (22, 5), (26, 5), (30, 5), (22, 8), (22, 9),
  ]

  private let total: Int
  private let correctionLength: Int
  private let count: Int

  init(_ version: Int, _ correction: QRCode.Correction) {
    let table =
      switch correction {
      case .low: Self.low
      case .medium: Self.medium
      }
    (correctionLength, count) = table[version - 1]
    total = QRCode.Grid.codewordCount(version)
  }

  /// Codewords of data in all blocks.
  var dataCount: Int { total - correctionLength * count }

  /// All codewords in the order that they are placed in: the blocks' first ones, their second ones, …
  func codewords(of data: [UInt8]) -> [UInt8] {
    precondition(data.count == dataCount)
    let code = ReedSolomon(length: correctionLength)
    let short = dataCount / count
    let shortBlocks = count - dataCount % count
    var rest = data[...]
    let blocks = (0..<count).map { index in
      let block = Array(rest.prefix(index < shortBlocks ? short : short + 1))
      rest = rest.dropFirst(block.count)
      return block
    }
    return Self.interleaved(blocks) + Self.interleaved(blocks.map { code.correction(of: $0) })
  }

  private static func interleaved(_ blocks: [[UInt8]]) -> [UInt8] {
    let longest = blocks.map(\.count).max() ?? 0
    return (0..<longest).flatMap { index in blocks.filter { index < $0.count }.map { $0[index] } }
  }
}

/// Reed–Solomon codes over GF(2⁸) with the polynomial x⁸ + x⁴ + x³ + x² + 1 (ISO/IEC 18004 §7.5.2).
struct ReedSolomon {
  /// The generator polynomial's, without the leading 1.
  private let coefficients: [UInt8]

  /// `length`: codewords of error correction.
  init(length: Int) {
    var product = [UInt8](repeating: 0, count: length - 1) + [1]
    var root: UInt8 = 1
    for _ in 0..<length {
      for index in product.indices {
        product[index] = Self.multiply(product[index], root)
        if index + 1 < length { product[index] ^= product[index + 1] }
      }
      root = Self.multiply(root, 2)
    }
    coefficients = product
  }

  func correction(of block: [UInt8]) -> [UInt8] {
    var remainder = [UInt8](repeating: 0, count: coefficients.count)
    for byte in block {
      let factor = byte ^ remainder.removeFirst()
      remainder.append(0)
      for index in remainder.indices { remainder[index] ^= Self.multiply(coefficients[index], factor) }
    }
    return remainder
  }

  static func multiply(_ left: UInt8, _ right: UInt8) -> UInt8 {
    var (product, left, right) = (0, Int(left), right)
    while right > 0 {
      if right & 1 == 1 { product ^= left }
      left <<= 1
      if left > 255 { left ^= 0x11D }
      right >>= 1
    }
    return UInt8(product)
  }
}
