import ArgumentParser

/// A duration as an option has it: `45` or `45s`, `10m`, `2h`, `7d`; a fraction is allowed.
struct TimeSpan: ExpressibleByArgument, Sendable, Equatable {
  private static let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
  private static let longestNumber = 12
  /// Seconds for which an approval may hold, as the broker limits it.
  private static let longestApproval = 3600.0

  let seconds: Double

  /// Whether an approval may hold so long.
  var isTaken: Bool { seconds > 0 && seconds <= Self.longestApproval }

  init?(argument: String) {
    guard let last = argument.last else { return nil }
    let number = Self.units[last] == nil ? argument[...] : argument.dropLast()
    let parts = number.split(separator: ".", omittingEmptySubsequences: false)
    guard number.utf8.count <= Self.longestNumber, parts.count <= 2,
      parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }),
      let count = Double(number)
    else { return nil }
    seconds = count * (Self.units[last] ?? 1)
  }

  /// For options whose value is a number of seconds.
  static func seconds(_ text: String) throws -> Double {
    guard let span = TimeSpan(argument: text) else {
      throw ValidationError("a duration is written 45, 30s, 10m, 2h or 7d.")
    }
    return span.seconds
  }
}
