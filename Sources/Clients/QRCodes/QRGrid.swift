extension QRCode {
  /// The modules of a symbol.
  struct Grid: Sendable {
    private struct Module {
      var isDark = false
      /// It belongs to a pattern: no data, no mask.
      var isFixed = false
    }

    let size: Int
    private let version: Int
    private var modules: [Module]

    /// The patterns of the version (ISO/IEC 18004 §6.3), all else light.
    init(version: Int) {
      self.version = version
      size = 17 + 4 * version
      modules = Array(repeating: Module(), count: size * size)
      for index in 0..<size {
        fix(6, index, index % 2 == 0)
        fix(index, 6, index % 2 == 0)
      }
      for (x, y) in [(3, 3), (size - 4, 3), (3, size - 4)] { drawFinder(x, y) }
      drawAlignments()
      // Reserves the place; the masks' own bits come later.
      drawFormat(0)
      drawVersion()
    }

    func isDark(_ x: Int, _ y: Int) -> Bool { modules[y * size + x].isDark }

    private mutating func fix(_ x: Int, _ y: Int, _ isDark: Bool) {
      modules[y * size + x] = Module(isDark: isDark, isFixed: true)
    }

    private mutating func drawFinder(_ centerX: Int, _ centerY: Int) {
      for y in centerY - 4...centerY + 4 {
        for x in centerX - 4...centerX + 4 where (0..<size).contains(x) && (0..<size).contains(y) {
          let distance = max(abs(x - centerX), abs(y - centerY))
          fix(x, y, distance != 2 && distance != 4)
        }
      }
    }

    /// Annex E.
    private var alignments: [Int] {
      guard version > 1 else { return [] }
      let count = version / 7 + 2
      let step = (version * 4 + count * 2 + 1) / (count * 2 - 2) * 2
      return [6] + (0..<count - 1).reversed().map { size - 7 - $0 * step }
    }

    private mutating func drawAlignments() {
      guard let last = alignments.last else { return }
      for centerY in alignments {
        for centerX in alignments where ![(6, 6), (6, last), (last, 6)].contains(where: { $0 == (centerX, centerY) }) {
          for y in centerY - 2...centerY + 2 {
            for x in centerX - 2...centerX + 2 { fix(x, y, max(abs(x - centerX), abs(y - centerY)) != 1) }
          }
        }
      }
    }

    /// Five bits, protected by a BCH code and masked (§7.9), twice.
    mutating func drawFormat(_ data: Int) {
      var remainder = data
      for _ in 0..<10 { remainder = remainder << 1 ^ (remainder >> 9) * 0x537 }
      let bits = (data << 10 | remainder) ^ 0x5412
      for index in 0..<15 {
        let isDark = bits >> index & 1 == 1
        switch index {
        case 0..<6: fix(8, index, isDark)
        case 6, 7: fix(8, index + 1, isDark)
        case 8: fix(7, 8, isDark)
        default: fix(14 - index, 8, isDark)
        }
        if index < 8 { fix(size - 1 - index, 8, isDark) } else { fix(8, size - 15 + index, isDark) }
      }
      fix(8, size - 8, true)
    }

    /// Six bits, protected by a Golay code (§7.10), twice; from version 7 on.
    private mutating func drawVersion() {
      guard version >= 7 else { return }
      var remainder = version
      for _ in 0..<12 { remainder = remainder << 1 ^ (remainder >> 11) * 0x1F25 }
      let bits = version << 12 | remainder
      for index in 0..<18 {
        let isDark = bits >> index & 1 == 1
        fix(size - 11 + index % 3, index / 3, isDark)
        fix(index / 3, size - 11 + index % 3, isDark)
      }
    }

    /// How many codewords the modules outside the patterns hold: finders, timing, format, version, and alignments
    /// without their common part with the timing.
    static func codewordCount(_ version: Int) -> Int {
      let size = 17 + 4 * version
      let sides = version / 7 + 2
      let alignments = version == 1 ? 0 : (sides * sides - 3) * 25 - (sides - 2) * 10
      let modules = size * size - 3 * 64 - 2 * (size - 16) - 31 - alignments - (version < 7 ? 0 : 36)
      return modules / 8
    }

    /// Two columns at a time, from the right, up and down by turns, past the vertical timing pattern (§7.7.3).
    mutating func place(_ codewords: [UInt8]) {
      var index = 0
      for pair in 0..<(size - 1) / 2 {
        let fromRight = size - 1 - 2 * pair
        let right = fromRight > 6 ? fromRight : fromRight - 1
        for step in 0..<size {
          let y = pair % 2 == 0 ? size - 1 - step : step
          for x in [right, right - 1] where !modules[y * size + x].isFixed && index < codewords.count * 8 {
            modules[y * size + x].isDark = codewords[index / 8] >> (7 - index % 8) & 1 == 1
            index += 1
          }
        }
      }
      precondition(index == codewords.count * 8)
    }

    mutating func apply(_ mask: Mask) {
      for y in 0..<size {
        for x in 0..<size where !modules[y * size + x].isFixed && mask.inverts(x, y) {
          modules[y * size + x].isDark.toggle()
        }
      }
    }
  }

  /// One of the eight patterns that keep a symbol from looking like its finders (§7.8.2).
  struct Mask {
    static let count = 8

    let number: Int

    init(_ number: Int) {
      precondition((0..<Self.count).contains(number))
      self.number = number
    }

    func inverts(_ x: Int, _ y: Int) -> Bool {
      switch number {
      case 0: (x + y) % 2 == 0
      case 1: y % 2 == 0
      case 2: x % 3 == 0
      case 3: (x + y) % 3 == 0
      case 4: (x / 3 + y / 2) % 2 == 0
      case 5: x * y % 2 + x * y % 3 == 0
      case 6: (x * y % 2 + x * y % 3) % 2 == 0
      default: ((x + y) % 2 + x * y % 3) % 2 == 0
      }
    }
  }
}

// MARK: Which mask is best

extension QRCode.Grid {
  /// Runs, squares, what looks like a finder, and too much of one colour (§7.8.3, table 11).
  var penalty: Int {
    let rows = (0..<size).map { y in (0..<size).map { isDark($0, y) } }
    let columns = (0..<size).map { x in (0..<size).map { isDark(x, $0) } }
    let lines = (rows + columns).reduce(0) { $0 + Self.runs($1) + Self.finders($1) }
    return lines + squares + imbalance
  }

  /// 3 for five modules of one colour in a line, 1 for each more.
  private static func runs(_ line: [Bool]) -> Int {
    var (penalty, length) = (0, 0)
    for index in line.indices {
      length = index > 0 && line[index] == line[index - 1] ? length + 1 : 1
      if length == 5 { penalty += 3 } else if length > 5 { penalty += 1 }
    }
    return penalty
  }

  /// 40 for a finder's 1:1:3:1:1 with four light modules before or behind it.
  private static func finders(_ line: [Bool]) -> Int {
    var (penalty, window) = (0, 0)
    for (index, isDark) in line.enumerated() {
      window = (window << 1 | (isDark ? 1 : 0)) & 0b111_1111_1111
      if index >= 10, window == 0b1011101_0000 || window == 0b0000_1011101 { penalty += 40 }
    }
    return penalty
  }

  /// 3 for each two by two modules of one colour.
  private var squares: Int {
    var penalty = 0
    for y in 1..<size {
      for x in 1..<size {
        let isDark = isDark(x, y)
        if isDark == self.isDark(x - 1, y), isDark == self.isDark(x, y - 1), isDark == self.isDark(x - 1, y - 1) {
          penalty += 3
        }
      }
    }
    return penalty
  }

  /// 10 for each full 5 % that dark modules are away from one half.
  private var imbalance: Int {
    let dark = (0..<size * size).count { isDark($0 % size, $0 / size) }
    return abs(dark * 20 - size * size * 10) / (size * size) * 10
  }
}
