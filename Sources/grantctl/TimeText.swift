import Foundation
import Glibc

/// Times and durations for people. All are Unix seconds.
enum TimeText {
  /// `45 s`, `59 min`, `1 h 30 min`, `12 h`, `3 days`: rounded down.
  static func duration(_ seconds: Int64) -> String {
    let seconds = max(0, seconds)
    let (minutes, hours) = (seconds / 60, seconds / 3600)
    if seconds < 60 { return "\(seconds) s" }
    if minutes < 60 { return "\(minutes) min" }
    if hours < 10 { return minutes % 60 == 0 ? "\(hours) h" : "\(hours) h \(minutes % 60) min" }
    return hours < 48 ? "\(hours) h" : "\(hours / 24) days"
  }

  /// Under the heading “expires in”: `59 min`, `expired 3 min ago`; a dash where it is not known.
  static func expiry(_ at: Int64?, now: Int64) -> String {
    guard let at else { return "-" }
    return at > now ? duration(at - now) : "expired \(ago(at, now: now))"
  }

  /// `in 2 h`, `now`.
  static func until(_ at: Int64?, now: Int64) -> String {
    guard let at else { return "-" }
    return at > now ? "in \(duration(at - now))" : "now"
  }

  /// `3 min ago`, `just now`.
  static func ago(_ at: Int64, now: Int64) -> String {
    now - at < 1 ? "just now" : "\(duration(now - at)) ago"
  }

  /// `2026-01-01 13:45:00` at that place.
  static func date(_ at: Int64, in zone: TimeZone) -> String {
    var local = time_t(at) + zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(at)))
    var parts = tm()
    gmtime_r(&local, &parts)
    func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let day = "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
    return day + " " + [parts.tm_hour, parts.tm_min, parts.tm_sec].map(two).joined(separator: ":")
  }
}
