/// Times and durations for users, in Unix seconds.
public enum TimeText {
  /// `45 s`, `59 min`, `1 h 30 min`, `12 h`, `3 days`: rounded down.
  public static func duration(_ seconds: Int64) -> String {
    let seconds = max(0, seconds)
    let (minutes, hours) = (seconds / 60, seconds / 3600)
    if seconds < 60 { return "\(seconds) s" }
    if minutes < 60 { return "\(minutes) min" }
    if hours < 10 { return minutes % 60 == 0 ? "\(hours) h" : "\(hours) h \(minutes % 60) min" }
    return hours < 48 ? "\(hours) h" : "\(hours / 24) days"
  }

  /// `3 min ago`, `just now`.
  public static func ago(_ at: Int64, now: Int64) -> String {
    now - at < 1 ? "just now" : "\(duration(now - at)) ago"
  }

  /// `in 2 h`, `now`.
  public static func until(_ at: Int64, now: Int64) -> String { at > now ? "in \(duration(at - now))" : "now" }
}
