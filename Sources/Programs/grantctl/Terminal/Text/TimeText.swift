import Glibc
import PlainText

extension TimeText {
  /// Under the heading “expires in”: `59 min`, `expired 3 min ago`; a dash where it is not known.
  static func expiry(_ at: Int64?, now: Int64) -> String {
    guard let at else { return "-" }
    return at > now ? duration(at - now) : "expired \(ago(at, now: now))"
  }

  /// A dash where it is not known.
  static func until(_ at: Int64?, now: Int64) -> String { at.map { until($0, now: now) } ?? "-" }

  /// `2026-01-01 13:45:00` at that place.
  static func date(_ at: Int64, in zone: LocalTime) -> String {
    let parts = zone.parts(of: at)
    func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let day = "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
    return day + " " + [parts.tm_hour, parts.tm_min, parts.tm_sec].map(two).joined(separator: ":")
  }

  /// `01-31 13:45:10` of this year, else `2025-12-31`.
  static func dated(_ at: Int64, now: Int64, in zone: LocalTime) -> String {
    let (moment, today) = (date(at, in: zone), date(now, in: zone))
    return String(moment.prefix(4) == today.prefix(4) ? moment.dropFirst(5) : moment.prefix(10))
  }

  /// A time as the user types it: `90s`, `30m`, `2h`, `7d` ago; `2026-01-31`, with ` 13:45` or ` 13:45:10`, at that place. Nil: it
  /// is none of these.
  static func moment(_ text: String, now: Int64, in zone: LocalTime) -> Int64? {
    if text.last?.isLetter == true {
      guard let span = TimeSpan(argument: text), let seconds = Int64(exactly: span.seconds.rounded()) else {
        return nil
      }
      return max(0, now - seconds)
    }
    let halves = text.split(whereSeparator: { $0 == " " || $0 == "T" })
    guard let first = halves.first, halves.count <= 2, let day = numbers(first, "-", [1970...9999, 1...12, 1...31]),
      let time = halves.count == 1 ? [] : numbers(halves[1], ":", [0...23, 0...59, 0...60])
    else { return nil }
    var parts = tm()
    (parts.tm_year, parts.tm_mon, parts.tm_mday) = (day[0] - 1900, day[1] - 1, day[2])
    parts.tm_hour = time.first ?? 0
    parts.tm_min = time.count > 1 ? time[1] : 0
    parts.tm_sec = time.count > 2 ? time[2] : 0
    let moment = zone.moment(&parts)
    // The 31st of a month that has none has become another day.
    guard parts.tm_mday == day[2] else { return nil }
    return max(0, moment)
  }

  private static func isNumber(_ text: Substring) -> Bool {
    !text.isEmpty && text.allSatisfy { $0.isASCII && $0.isNumber }
  }

  /// A time of day may lack its seconds; a date lacks nothing.
  private static func numbers(_ text: Substring, _ separator: Character, _ ranges: [ClosedRange<Int32>]) -> [Int32]? {
    let parts = text.split(separator: separator, omittingEmptySubsequences: false)
    let numbers = parts.compactMap { part in isNumber(part) ? Int32(part) : nil }
    guard numbers.count == parts.count, parts.count == 3 || (separator == ":" && parts.count == 2),
      zip(numbers, ranges).allSatisfy({ $1.contains($0) })
    else { return nil }
    return numbers
  }
}
