import Testing

@testable import Loopback

@Suite struct PatternSearchTests {
  /// Every position and pattern compared.
  private func suspected(_ bytes: [UInt8], _ patterns: [[UInt8]]) -> (found: Bool, suspect: Bool) {
    let found = patterns.contains { pattern in
      bytes.indices.contains { bytes[$0...].starts(with: pattern) }
    }
    let begins = bytes.indices.contains { start in patterns.contains { $0.starts(with: bytes[start...]) } }
    return (found, found || begins)
  }

  private func check(_ bytes: [UInt8], _ patterns: [[UInt8]]) {
    let search = PatternSearch(patterns)
    let expected = suspected(bytes, patterns)
    #expect(bytes.withUnsafeBytes(search.finds) == expected.found, "\(bytes) \(patterns)")
    #expect(bytes.withUnsafeBytes(search.isSuspect) == expected.suspect, "\(bytes) \(patterns)")
  }

  @Test("It finds what a comparison at every position finds", arguments: 1...4)
  func equal(letters: UInt8) {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<400 {
      let patterns = (0..<Int.random(in: 1...4, using: &random)).map { _ in
        (0..<Int.random(in: 2...40, using: &random)).map { _ in UInt8.random(in: 0..<letters, using: &random) }
      }
      var bytes = (0..<Int.random(in: 0...90, using: &random)).map { _ in
        UInt8.random(in: 0..<(letters + 1), using: &random)
      }
      if Bool.random(using: &random), let part = patterns.randomElement(using: &random) {
        let place = Int.random(in: 0...bytes.count, using: &random)
        bytes.insert(contentsOf: part.prefix(Int.random(in: 1...part.count, using: &random)), at: place)
      }
      check(bytes, patterns)
    }
  }

  @Test("It finds a pattern behind bytes that could begin one at each position")
  func repeated() {
    let pattern = [UInt8](repeating: 97, count: 300) + [98]
    let bytes = [UInt8](repeating: 97, count: 5000)
    check(bytes + [98], [pattern])
    check(bytes + [99] + bytes, [pattern])
  }

  @Test("Nothing is found without patterns")
  func nothing() {
    let search = PatternSearch([])
    #expect(![UInt8](repeating: 0, count: 9).withUnsafeBytes(search.isSuspect))
  }
}
