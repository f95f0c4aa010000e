import CQREncode

/// A text as a QR code (ISO/IEC 18004), in byte mode, by libqrencode.
public struct QRCode: Sendable {
  /// How much of the symbol may be unreadable.
  public enum Correction: Int32, Sendable, CaseIterable {
    /// About 7 %.
    case low
    /// About 15 %.
    case medium
  }

  /// Version 13 with its quiet zone is 77 modules wide: the largest that 80 columns hold.
  public static let largestVersion = 13

  public let version: Int
  public let correction: Correction
  /// Modules of one side.
  public let size: Int
  /// Row by row.
  private let modules: [Bool]

  /// Whether the library is installed: without it there are no codes.
  public static var isAvailable: Bool { cqrencode_load() != 0 }

  /// The smallest version that holds the text, with the stronger correction where that costs nothing;
  /// nil: it is empty or too long, or the library is not installed.
  public init?(_ text: String) {
    guard Self.isAvailable, let low = QRCode(text, .low), low.version <= Self.largestVersion else { return nil }
    let medium = QRCode(text, .medium)
    self = medium.flatMap { $0.version == low.version ? $0 : nil } ?? low
  }

  private init?(_ text: String, _ correction: Correction) {
    let bytes = Array(text.utf8)
    guard let count = Int32(exactly: bytes.count),
      let code = cqrencode_encode(bytes, count, correction.rawValue)
    else { return nil }
    defer { cqrencode_free(code) }
    version = Int(code.pointee.version)
    size = Int(code.pointee.width)
    self.correction = correction
    modules = UnsafeBufferPointer(start: code.pointee.data, count: size * size).map { $0 & 1 == 1 }
  }

  /// Whether the module is dark; all around the symbol is light.
  public func isDark(_ x: Int, _ y: Int) -> Bool {
    (0..<size).contains(x) && (0..<size).contains(y) && modules[y * size + x]
  }
}
