import BrokerAPI
import Pages
import PlainText

/// What is wrong beside the accounts: providers, the store, the clock, token files and listeners. The same conditions as in
/// `grantctl status`.
struct SystemProblems {
  /// Seconds.
  static let noticedSkew = 5.0

  private(set) var html: HTML = ""

  init(_ status: BrokerStatus.Result, now: Int64) {
    for condition in status.provider_conditions ?? [] { add(condition, now) }
    for condition in status.provider_conditions ?? [] where abs(condition.skew_seconds ?? 0) >= Self.noticedSkew {
      let skew = condition.skew_seconds ?? 0
      let seconds = Int64(exactly: abs(skew).rounded()) ?? .max
      html += Parts.message(
        "warn",
        "this machine's clock is \(TimeText.duration(seconds)) \(skew > 0 ? "ahead of" : "behind") provider \(condition.provider)",
        "Check `timedatectl`: is the clock synchronized?")
      break
    }
    if let clock = status.clock { html += Parts.message("bad", clock.message, clock.hint) }
    if status.store.state != "ok" {
      html += Parts.message(
        status.store.state == "slow" ? "warn" : "bad",
        "the store is \(status.store.state)\(status.store.message.map { ": \($0)" } ?? "")", status.store.hint)
    }
    for row in status.set_aside ?? [] { html += Parts.message("bad", row.message, row.hint) }
    for file in status.files ?? [] where file.state != "ok" {
      html += Parts.message(
        file.state == "stale" ? "warn" : "bad",
        "token file \(file.path) is \(file.state)\(file.message.map { ": \($0)" } ?? "")", file.hint)
    }
    for listener in status.listeners ?? [] where listener.state != "ok" {
      html += Parts.message("bad", listener.message ?? "\(listener.setting) is not served", listener.hint)
    }
  }

  private mutating func add(_ condition: BrokerStatus.ConditionView, _ now: Int64) {
    let since = condition.since.map { " for \(TimeText.duration(now - $0))" } ?? ""
    let retry = condition.retry_at.map { " It is asked again \(TimeText.until($0, now: now))." } ?? ""
    let error = condition.last_error.map { Parts.sentence($0) + "." } ?? ""
    let name = "provider \(condition.provider)"
    switch condition.condition {
    case "ok": break
    case "recovering":
      html += Parts.message("neutral", "\(name) answers again. Refreshes run one after the other.", nil)
    case "suspended":
      html += Parts.message(
        "bad", "\(name) refuses this client\(since)", error + " Check the client on the view Health.")
    default:
      html += Parts.message("warn", "\(name) is \(condition.condition)\(since)", error + retry)
    }
  }
}
