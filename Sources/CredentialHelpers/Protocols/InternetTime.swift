/// RFC 3339 §5.6, in UTC.
enum InternetTime {
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
