import Synchronization

/// What happened, for people to read: written only when a failing seed is run again. Its fingerprint is always made, so
/// that two runs of a seed can be compared.
final class Trace {
  /// The latest lines are kept.
  static let kept = 4000

  private(set) var fingerprint: UInt64 = 0xcbf2_9ce4_8422_2325
  private(set) var lines: [String] = []
  let isKept: Bool

  init(isKept: Bool) { self.isKept = isKept }

  func add(_ number: Int64) {
    fingerprint = (fingerprint ^ UInt64(bitPattern: number)) &* 0x0000_0100_0000_01B3
  }

  func add(_ at: Moment, _ text: @autoclosure () -> String) {
    add(at)
    note(at, text())
  }

  /// Without its place in the fingerprint.
  func note(_ at: Moment, _ text: @autoclosure () -> String) {
    guard isKept else { return }
    lines.append("\(Trace.clock(at))  \(text())")
    if lines.count > 2 * Trace.kept { lines.removeFirst(Trace.kept) }
  }

  /// `2d 03:04:05.678`
  static func clock(_ at: Moment) -> String {
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let thousandths = at % 1000
    let fraction = thousandths < 10 ? "00\(thousandths)" : thousandths < 100 ? "0\(thousandths)" : "\(thousandths)"
    return "\(at / day)d \(two(at / hour % 24)):\(two(at / minute % 60)):\(two(at / second % 60)).\(fraction)"
  }
}

/// How often each thing happened. A class that never does proves nothing.
struct Counts {
  private(set) var numbers: [String: Int] = [:]

  mutating func add(_ name: String, _ count: Int = 1) { numbers[name, default: 0] += count }
  mutating func add(_ other: Counts) { for (name, count) in other.numbers { add(name, count) } }
  subscript(_ name: String) -> Int { numbers[name, default: 0] }
}
