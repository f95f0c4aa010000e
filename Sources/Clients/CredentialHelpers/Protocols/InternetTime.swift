/// RFC 3339 §5.6, written in UTC.
public enum InternetTime {
  /// The Unix seconds of `2026-01-31T13:45:10Z`, with a fraction or an offset if it has one; nil: another form.
  public static func seconds(_ text: String) -> Int64? {
    guard let (local, offset) = splitOffset(text) else { return utcSeconds(text) }
    return utcSeconds(local).map { $0 - offset }
  }

  /// `…+02:00` as `…Z` and 7200; nil: it has no offset.
  private static func splitOffset(_ text: String) -> (String, Int64)? {
    let bytes = Array(text.utf8.suffix(6))
    guard bytes.count == 6, text.utf8.count > 6, bytes[0] == 0x2B || bytes[0] == 0x2D, bytes[3] == 0x3A else {
      return nil
    }
    let digits = [bytes[1], bytes[2], bytes[4], bytes[5]].map { Int64($0) - 0x30 }
    guard digits.allSatisfy({ (0...9).contains($0) }) else { return nil }
    let (hours, minutes) = (digits[0] * 10 + digits[1], digits[2] * 10 + digits[3])
    guard hours < 24, minutes < 60 else { return nil }
    let offset = (hours * 60 + minutes) * 60
    return (String(decoding: text.utf8.dropLast(6), as: UTF8.self) + "Z", bytes[0] == 0x2B ? offset : -offset)
  }

  private static func utcSeconds(_ text: String) -> Int64? {
    let bytes = Array(text.utf8)
    guard bytes.count >= 20, bytes.last == UInt8(ascii: "Z"), bytes.count <= 40 else { return nil }
    func isNumber(_ range: Range<Int>) -> Bool { bytes[range].allSatisfy { (0x30...0x39).contains($0) } }
    func number(_ range: Range<Int>) -> Int64? {
      isNumber(range) ? bytes[range].reduce(Int64(0)) { $0 * 10 + Int64($1 - 0x30) } : nil
    }
    let marks: [(Int, Character)] = [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":")]
    guard marks.allSatisfy({ bytes[$0.0] == $0.1.asciiValue }),
      bytes.count == 20 || bytes.count > 21 && bytes[19] == UInt8(ascii: ".") && isNumber(20..<bytes.count - 1),
      let year = number(0..<4), let month = number(5..<7), let day = number(8..<10), let hour = number(11..<13),
      let minute = number(14..<16), let second = number(17..<19), (1...12).contains(month), (1...31).contains(day),
      hour < 24, minute < 60, second <= 60
    else { return nil }
    // Counted from 1 March of the year 0, so that leap days come last.
    let shifted = month > 2 ? year : year - 1
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    // The 31st of a month that has none has become another day.
    guard date(days) == (year, month, day) else { return nil }
    return days * 86_400 + hour * 3600 + minute * 60 + second
  }

  static func text(_ seconds: Int64) -> String {
    // Beyond the year 9999 the form has no room.
    let seconds = min(max(seconds, 0), 253_402_300_799)
    let (days, rest) = (seconds / 86_400, seconds % 86_400)
    let (year, month, day) = date(days)
    return "\(padded(year, 4))-\(padded(month))-\(padded(day))T\(padded(rest / 3600)):\(padded(rest / 60 % 60)):"
      + "\(padded(rest % 60))Z"
  }

  /// The Gregorian calendar, counted from 1 March of the year 0, so that leap days come last.
  private static func date(_ days: Int64) -> (Int64, Int64, Int64) {
    let shifted = days + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted % 146_097
    let year = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * year + year / 4 - year / 100)
    let month = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * month + 2) / 5 + 1
    let calendarMonth = month < 10 ? month + 3 : month - 9
    return (year + era * 400 + (calendarMonth <= 2 ? 1 : 0), calendarMonth, day)
  }

  private static func padded(_ value: Int64, _ width: Int = 2) -> String {
    let digits = "\(value)"
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }
}
