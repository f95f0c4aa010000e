import CLinux
import Glibc

/// Whether bytes contain one of several patterns, in one pass that skips most of them: Wu and Manber, "A fast algorithm for
/// multi-pattern searching" (1994), with blocks of two bytes. A search for each pattern would be slow where a pattern and
/// the bytes repeat the same byte, as UTF-16 and files of zeros do.
struct PatternSearch {
  /// The longest part of each pattern that the table describes, in bytes.
  private static let longestWindow = 32
  private static let hashes = 1 << 12

  private let patterns: [[UInt8]]
  /// How many bytes at the beginning of each pattern are in ``shifts``.
  private let window: Int
  /// How far the window may move that ends with a block, by the block's hash.
  private var shifts: [UInt8] = []
  /// Whether a pattern begins with the byte.
  private var begins = [Bool](repeating: false, count: 256)

  /// - Parameter patterns: of at least two bytes each.
  init(_ patterns: [[UInt8]]) {
    precondition(patterns.allSatisfy { $0.count > 1 }, "a pattern of one byte would not be found")
    self.patterns = patterns
    window = min(patterns.map(\.count).min() ?? 0, Self.longestWindow)
    guard window > 1 else { return }
    shifts = [UInt8](repeating: UInt8(window - 1), count: Self.hashes)
    for pattern in patterns {
      begins[Int(pattern[0])] = true
      for end in 1..<window {
        let hash = Self.hash(pattern[end - 1], pattern[end])
        shifts[hash] = min(shifts[hash], UInt8(window - 1 - end))
      }
    }
  }

  /// Whether there is a pattern, or the beginning of one at the end.
  func isSuspect(_ bytes: UnsafeRawBufferPointer) -> Bool { finds(in: bytes) || beginning(bytes) > 0 }

  func finds(in bytes: UnsafeRawBufferPointer) -> Bool {
    guard window > 1 else { return false }
    var end = window - 1
    // The most comparisons: a sender may choose the bytes so that each could begin a pattern.
    var work = 4 * bytes.count
    return shifts.withUnsafeBufferPointer { shifts in
      while end < bytes.count {
        let shift = shifts[Self.hash(bytes[end - 1], bytes[end])]
        guard shift == 0 else {
          end += Int(shift)
          continue
        }
        let start = end + 1 - window
        for pattern in patterns {
          work -= 1
          guard matches(pattern.prefix(window), bytes, start) else { continue }
          work -= pattern.count
          if matches(pattern[...], bytes, start) { return true }
        }
        guard work > 0 else { return findsSlowly(in: bytes) }
        end += 1
      }
      return false
    }
  }

  /// In a time that does not depend on the bytes: memmem(3) is linear.
  private func findsSlowly(in bytes: UnsafeRawBufferPointer) -> Bool {
    patterns.contains { clinux_find(bytes.baseAddress, bytes.count, $0, $0.count) >= 0 }
  }

  /// How many bytes at the end are the beginning of a pattern.
  func beginning(_ bytes: UnsafeRawBufferPointer) -> Int {
    guard let longest = patterns.map(\.count).max() else { return 0 }
    for start in max(0, bytes.count - longest + 1)..<bytes.count where begins[Int(bytes[start])] {
      let length = bytes.count - start
      if patterns.contains(where: { length < $0.count && matches($0.prefix(length), bytes, start) }) { return length }
    }
    return 0
  }

  private func matches(_ part: ArraySlice<UInt8>, _ bytes: UnsafeRawBufferPointer, _ start: Int) -> Bool {
    guard start + part.count <= bytes.count, let address = bytes.baseAddress else { return false }
    return part.withUnsafeBytes { $0.baseAddress.map { memcmp(address + start, $0, part.count) == 0 } ?? true }
  }

  private static func hash(_ first: UInt8, _ second: UInt8) -> Int { Int(first) << 4 ^ Int(second) }
}
