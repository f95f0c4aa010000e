import CLinux
import Glibc
import NIOCore
import OAuth

/// Takes the token out of an answer as it goes by. What replaces it is as long, so that lengths stay true.
struct TokenFilter {
  private let patterns: [[UInt8]]
  private let search: PatternSearch
  /// The last bytes received, if they could be the beginning of a secret.
  private var held: [UInt8] = []

  /// - Parameter secrets: as sent; each is searched in all its forms (``SecretForms``).
  init(_ secrets: [String]) {
    let forms = Set(secrets.filter { $0.utf8.count >= 8 }.flatMap(SecretForms.of))
    patterns = forms.sorted { $0.count > $1.count }
    search = PatternSearch(patterns)
  }

  /// The part that can be returned; empty if all of it may begin a secret.
  mutating func pass(_ part: ByteBuffer) -> ByteBuffer? {
    guard !patterns.isEmpty, !held.isEmpty || part.withUnsafeReadableBytes(search.isSuspect) else { return part }
    var bytes = held + Array(part.readableBytesView)
    held = []
    if bytes.withUnsafeBytes(search.finds) {
      for pattern in patterns { Self.cover(pattern, in: &bytes) }
    }
    let kept = bytes.withUnsafeBytes(search.beginning)
    held = Array(bytes.suffix(kept))
    bytes.removeLast(kept)
    return bytes.isEmpty ? nil : ByteBuffer(bytes: bytes)
  }

  /// The rest, at the end.
  mutating func end() -> ByteBuffer? {
    defer { held = [] }
    return held.isEmpty ? nil : ByteBuffer(bytes: held)
  }

  /// Whether there is no secret in it.
  func isClean(_ text: String) -> Bool {
    var text = text
    return text.withUTF8 { !search.finds(in: UnsafeRawBufferPointer($0)) }
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
}
