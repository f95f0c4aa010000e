import BrokerAPI
import Pages

/// States and callers for users.
enum PageText {
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
