import OAuth

extension Form where Output == Duration {
  /// `"90s"`, `"5m"`, `"1h"`, `"90d"`, or a number of seconds.
  static func duration(_ range: ClosedRange<Duration>) -> Form {
    let span = "a duration from \(range.lowerBound.inUnits) to \(range.upperBound.inUnits)"
    return Form(expected: span + examples(in: range)) { value throws(Unfit) in
      let duration: Duration?
      let found: String
      switch value {
      case .text(let text): (duration, found) = (Duration(units: text), quoted(text))
      case .number(let number): (duration, found) = (.seconds(number), String(number))
      default: throw .found(value.kind)
      }
      guard let duration, range.contains(duration) else { throw .found(found) }
      return duration
    }
  }

  /// Those of the usual ones that may be written there.
  private static func examples(in range: ClosedRange<Duration>) -> String {
    let usual: [Duration] = [.seconds(30), .minutes(5), .hours(1), .days(90)]
    let fitting = usual.filter(range.contains).map { "\"\($0.inUnits)\"" }
    guard let last = fitting.last else { return "" }
    let others = fitting.dropLast().joined(separator: ", ")
    return ", such as " + (others.isEmpty ? last : "\(others) or \(last)")
  }
}

extension Duration {
  private static let units: [(name: Character, seconds: Int64)] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)]

  static func minutes(_ count: Int64) -> Duration { .seconds(count * 60) }
  static func hours(_ count: Int64) -> Duration { .seconds(count * 3600) }
  static func days(_ count: Int64) -> Duration { .seconds(count * 86_400) }

  /// Digits and one unit: `s`, `m`, `h` or `d`. Nil if the text is not a duration, or longer than any used one.
  init?(units text: String) {
    guard let last = text.last, let unit = Self.units.first(where: { $0.name == last }),
      text.utf8.dropLast().allSatisfy({ (0x30...0x39).contains($0) }), let count = Int64(text.dropLast())
    else { return nil }
    let (seconds, overflow) = count.multipliedReportingOverflow(by: unit.seconds)
    guard !overflow else { return nil }
    self = .seconds(seconds)
  }

  /// As the configuration would write it, to the second.
  var inUnits: String {
    let seconds = wholeSeconds
    guard seconds > 0, let unit = Self.units.first(where: { seconds.isMultiple(of: $0.seconds) }) else {
      return "\(seconds)s"
    }
    return "\(seconds / unit.seconds)\(unit.name)"
  }
}
