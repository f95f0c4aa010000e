import CLinux
import Glibc
import NIOCore
import OAuth

/// Takes the token out of an answer as it goes by. What replaces it is as long, so that lengths stay true.
struct TokenFilter {
  private let patterns: [[UInt8]]
  /// The last bytes received, if they could be the beginning of a secret.
  private var held: [UInt8] = []

  /// - Parameter secrets: as sent; each is searched in all its forms (``SecretForms``).
  init(_ secrets: [String]) {
    let patterns = Set(secrets.filter { $0.utf8.count >= 8 }.flatMap(SecretForms.of))
    self.patterns = patterns.sorted { $0.count > $1.count }
  }

  /// The part that can be returned; empty if all of it may begin a secret.
  mutating func pass(_ part: ByteBuffer) -> ByteBuffer? {
    guard !patterns.isEmpty, !held.isEmpty || part.withUnsafeReadableBytes(isSuspect) else { return part }
    var bytes = held + Array(part.readableBytesView)
    held = []
    for pattern in patterns { Self.cover(pattern, in: &bytes) }
    let kept = patterns.map { Self.overlap(of: bytes, with: $0) }.max() ?? 0
    held = Array(bytes.suffix(kept))
    bytes.removeLast(kept)
    return bytes.isEmpty ? nil : ByteBuffer(bytes: bytes)
  }

  /// The rest, at the end.
  mutating func end() -> ByteBuffer? {
    defer { held = [] }
    return held.isEmpty ? nil : ByteBuffer(bytes: held)
  }

  /// Whether there is a secret in it, or the beginning of one at its end.
  private func isSuspect(_ bytes: UnsafeRawBufferPointer) -> Bool {
    patterns.contains { pattern in
      clinux_find(bytes.baseAddress, bytes.count, pattern, pattern.count) >= 0
        || (1..<max(2, min(bytes.count + 1, pattern.count))).contains { length in
          length <= bytes.count && bytes[bytes.count - length] == pattern[0]
            && pattern.withUnsafeBytes {
              memcmp(bytes.baseAddress! + bytes.count - length, $0.baseAddress!, length) == 0
            }
        }
    }
  }

  /// Whether there is no secret in it.
  func isClean(_ text: String) -> Bool {
    guard let shortest = patterns.last?.count, text.utf8.count >= shortest else { return true }
    var text = text
    return text.withUTF8 { text in
      patterns.allSatisfy { clinux_find(text.baseAddress, text.count, $0, $0.count) < 0 }
    }
  }

  func cleaned(_ text: String) -> String {
    guard !isClean(text) else { return text }
    var bytes = Array(text.utf8)
    for pattern in patterns { Self.cover(pattern, in: &bytes) }
    return String(decoding: bytes, as: UTF8.self)
  }

  private static let mark = Array("(redacted)".utf8)

  private static func cover(_ pattern: [UInt8], in bytes: inout [UInt8]) {
    var start = 0
    while start + pattern.count <= bytes.count {
      let offset = bytes.withUnsafeBytes { bytes in
        clinux_find(bytes.baseAddress! + start, bytes.count - start, pattern, pattern.count)
      }
      guard offset >= 0 else { return }
      let found = start + offset
      for offset in 0..<pattern.count {
        bytes[found + offset] = offset < mark.count ? mark[offset] : UInt8(ascii: "*")
      }
      start = found + pattern.count
    }
  }

  /// How many bytes at the end are the beginning of the pattern.
  private static func overlap(of bytes: [UInt8], with pattern: [UInt8]) -> Int {
    let longest = min(bytes.count, pattern.count - 1)
    guard longest > 0 else { return 0 }
    for length in stride(from: longest, through: 1, by: -1)
    where bytes[bytes.count - length] == pattern[0] && bytes.suffix(length).elementsEqual(pattern.prefix(length)) {
      return length
    }
    return 0
  }
}
