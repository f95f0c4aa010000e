/// A text as a QR code (ISO/IEC 18004), in byte mode.
public struct QRCode: Sendable {
  /// How much of the symbol may be unreadable.
  public enum Correction: Sendable, CaseIterable {
    /// About 7 %.
    case low
    /// About 15 %.
    case medium

    /// Table 12 of the standard.
    var formatBits: Int {
      switch self {
      case .low: 0b01
      case .medium: 0b00
      }
    }
  }

  /// Version 13 with its quiet zone is 77 modules wide: the largest that 80 columns hold.
  public static let versions = 1...13

  public let version: Int
  public let correction: Correction
  /// 0…7, chosen by the standard's penalties.
  let mask: Int
  private let grid: Grid

  /// Modules of one side.
  public var size: Int { grid.size }

  /// The smallest version that holds the text, with the stronger correction where that costs nothing;
  /// nil: it is too long for all.
  public init?(_ text: String) {
    let bytes = Array(text.utf8)
    guard let version = Self.versions.first(where: { bytes.count <= Self.capacity($0, .low) }) else { return nil }
    let correction = bytes.count <= Self.capacity(version, .medium) ? Correction.medium : .low
    self.init(bytes, version: version, correction: correction)
  }

  /// `mask`: nil: the best. The bytes must fit.
  init(_ bytes: [UInt8], version: Int, correction: Correction, mask: Int? = nil) {
    precondition(Self.versions.contains(version) && bytes.count <= Self.capacity(version, correction))
    var blank = Grid(version: version)
    blank.place(QRBlocks(version, correction).codewords(of: Self.data(bytes, version, correction)))
    let candidates = (mask.map { [$0] } ?? Array(0..<Mask.count)).map { mask in
      var grid = blank
      grid.apply(Mask(mask))
      grid.drawFormat(correction.formatBits << 3 | mask)
      return (mask: mask, grid: grid)
    }
    let best = candidates.count == 1 ? candidates[0] : candidates.min { $0.grid.penalty < $1.grid.penalty }
    guard let best else { preconditionFailure("there is no mask \(mask ?? -1)") }
    self.version = version
    self.correction = correction
    self.mask = best.mask
    grid = best.grid
  }

  /// Whether the module is dark; all around the symbol is light.
  public func isDark(_ x: Int, _ y: Int) -> Bool {
    (0..<size).contains(x) && (0..<size).contains(y) && grid.isDark(x, y)
  }

  /// Bits of the count in byte mode (table 3).
  private static func countBits(_ version: Int) -> Int { version < 10 ? 8 : 16 }

  /// Bytes of text that fit.
  static func capacity(_ version: Int, _ correction: Correction) -> Int {
    (QRBlocks(version, correction).dataCount * 8 - 4 - countBits(version)) / 8
  }

  /// Mode, count, bytes, terminator and padding (§7.4).
  private static func data(_ bytes: [UInt8], _ version: Int, _ correction: Correction) -> [UInt8] {
    var bits: [Bool] = []
    func append(_ value: Int, _ count: Int) {
      for index in (0..<count).reversed() { bits.append(value >> index & 1 == 1) }
    }
    append(0b0100, 4)
    append(bytes.count, countBits(version))
    for byte in bytes { append(Int(byte), 8) }
    let capacity = QRBlocks(version, correction).dataCount * 8
    append(0, min(4, capacity - bits.count))
    append(0, (8 - bits.count % 8) % 8)
    var padding = 0xEC
    while bits.count < capacity {
      append(padding, 8)
      padding ^= 0xEC ^ 0x11
    }
    return stride(from: 0, to: bits.count, by: 8).map { start in
      bits[start..<start + 8].reduce(0) { $0 << 1 | ($1 ? 1 : 0) }
    }
  }
}
