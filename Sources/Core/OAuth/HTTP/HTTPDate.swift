extension Timestamp {
  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// Parses an HTTP date in any of its three formats (RFC 9110 §5.6.7).
  public init?(httpDate text: String) {
    var words = text.split { $0 == " " || $0 == "-" || $0 == "," }.map(String.init)
    guard text.utf8.count <= 64, words.count == 6 || words.count == 5 else { return nil }
    if words.count == 5 {
      // asctime: Sun Nov  6 08:49:37 1994
      words = [words[0], words[2], words[1], words[4], words[3], "GMT"]
    }
    guard let day = Self.number(words[1], 1...31), let month = Self.months.firstIndex(of: words[2]),
      var year = Self.number(words[3], 0...9999), words[5] == "GMT"
    else { return nil }
    // A two-digit year belongs to the obsolete RFC 850 format.
    if words[3].count == 2 { year += year < 70 ? 2000 : 1900 }
    let clock = words[4].split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    guard clock.count == 3, let hour = Self.number(clock[0], 0...23), let minute = Self.number(clock[1], 0...59),
      let second = Self.number(clock[2], 0...60)
    else { return nil }
    let days = Self.daysSince1970(year: year, month: Int64(month) + 1, day: day)
    self.init(seconds: days * 86_400 + hour * 3600 + minute * 60 + second)
  }

  private static func number(_ text: String, _ range: ClosedRange<Int64>) -> Int64? {
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int64(text).flatMap { range.contains($0) ? $0 : nil }
  }

  /// Days of the proleptic Gregorian calendar, counted in years that begin in March so that the leap day comes last.
  private static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
    let year = month <= 2 ? year - 1 : year
    let era = (year >= 0 ? year : year - 399) / 400
    let yearOfEra = year - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }
}

extension HTTPResponse {
  /// The maximum delay that a server can request.
  public static let longestRetryAfter = Duration.seconds(86_400)

  /// A cache age of more than a year is ignored.
  private static let longestAge: Int64 = 366 * 86_400

  /// The server's clock at the response (RFC 9110 §6.6.1), used to detect clock skew. A cached response has the date of
  /// its creation, to which its age is added (`Age`, RFC 9111 §5.1).
  public var date: Timestamp? {
    guard let made = header("Date").flatMap(Timestamp.init(httpDate:)) else { return nil }
    guard let age = header("Age").map({ $0.trimmedOfSpace }) else { return made }
    guard !age.isEmpty, age.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let seconds = Int64(age),
      seconds <= Self.longestAge
    else { return nil }
    return made + .seconds(seconds)
  }

  /// The delay that the server requests (RFC 9110 §10.2.3): seconds, or a date, which is relative to the server's
  /// ``date`` and useless without it. At most a day; nil if the value is unreadable.
  public var retryAfter: Duration? {
    guard let text = header("Retry-After").map({ $0.trimmedOfSpace }), !text.isEmpty else { return nil }
    if text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      return min(Int64(text).map { .seconds($0) } ?? Self.longestRetryAfter, Self.longestRetryAfter)
    }
    guard let until = Timestamp(httpDate: text), let date else { return nil }
    return min(max(until - date, .zero), Self.longestRetryAfter)
  }
}

extension String {
  var trimmedOfSpace: String {
    String(drop { $0 == " " || $0 == "\t" }.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
  }
}
