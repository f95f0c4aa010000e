import Glibc

/// What the clocks of a place show.
enum LocalTime: Sendable {
  /// Where this process is: `TZ`, else /etc/localtime (tzset(3)).
  case ofProcess
  /// The number of seconds ahead of UTC.
  case ahead(Int)

  /// For tests.
  static let utc = LocalTime.ahead(0)

  /// - Parameter moment: Unix seconds.
  func parts(of moment: Int64) -> tm {
    var parts = tm()
    switch self {
    case .ofProcess:
      var moment = time_t(moment)
      localtime_r(&moment, &parts)
    case .ahead(let seconds):
      var moment = time_t(moment &+ Int64(seconds))
      gmtime_r(&moment, &parts)
    }
    return parts
  }

  /// Unix seconds. A day that its month does not have becomes one of the next month, in the parts too.
  func moment(_ parts: inout tm) -> Int64 {
    switch self {
    case .ofProcess:
      parts.tm_isdst = -1
      return Int64(mktime(&parts))
    case .ahead(let seconds): return Int64(timegm(&parts) - seconds)
    }
  }
}
