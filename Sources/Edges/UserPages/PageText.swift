import BrokerAPI
import Pages

/// Times, states and callers for users. Times are Unix seconds.
enum PageText {
  /// `45 s`, `59 min`, `1 h 30 min`, `12 h`, `3 days`: rounded down.
  static func duration(_ seconds: Int64) -> String {
    let seconds = max(0, seconds)
    let (minutes, hours) = (seconds / 60, seconds / 3600)
    if seconds < 60 { return "\(seconds) s" }
    if minutes < 60 { return "\(minutes) min" }
    if hours < 10 { return minutes % 60 == 0 ? "\(hours) h" : "\(hours) h \(minutes % 60) min" }
    return hours < 48 ? "\(hours) h" : "\(hours / 24) days"
  }

  static func ago(_ at: Int64, _ now: Int64) -> String { now - at < 1 ? "just now" : "\(duration(now - at)) ago" }

  static func until(_ at: Int64, _ now: Int64) -> String { at > now ? "in \(duration(at - now))" : "now" }

  static func count(_ number: Int, _ noun: String, _ plural: String? = nil) -> String {
    "\(number) \(number == 1 ? noun : plural ?? noun + "s")"
  }

  /// A user, as seen by another.
  static func user(_ uid: UInt32, for reader: UInt32) -> String {
    if uid == reader { return "you" }
    return uid == 0 ? "root" : "uid \(uid)"
  }

  /// `you, backup.service, /usr/bin/restic`.
  static func caller(_ caller: ReleaseCaller, for reader: UInt32) -> String {
    let unit = caller.user_unit.map { "user unit \($0)" } ?? caller.unit
    return [user(caller.uid, for: reader), unit, caller.exe].compactMap(\.self).joined(separator: ", ")
  }
}

extension AccountState {
  var isProblem: Bool {
    switch self {
    case .ok, .refreshing: false
    case .degraded, .loginRequired, .actionRequired: true
    }
  }

  var words: HTML {
    switch self {
    case .ok: "Signed in"
    case .refreshing: "Refreshing"
    case .degraded: "Refresh failed"
    case .loginRequired: "Sign-in needed"
    case .actionRequired: "Needs an administrator"
    }
  }

  var tone: HTML {
    switch self {
    case .ok: "good"
    case .refreshing: "neutral"
    case .degraded: "warn"
    case .loginRequired, .actionRequired: "bad"
    }
  }
}

extension AccountView.Identity {
  /// The name that a user knows best.
  var bestName: String { email ?? username ?? name ?? subject }
}
