import BrokerAPI
import Logging
import OAuth

// A record as the journal has it.
extension AuditRecord {
  /// A refusal is logged again whenever its count gains a digit: a continuing attempt must not look ended. The count is
  /// examined from time to time, rarely exactly at a power of ten.
  func isWorthTelling(after before: UInt64) -> Bool { entry.isRefusal && "\(count)".count > "\(before)".count }

  /// For people.
  var sentence: String {
    if entry.method == AuditEntry.severalMethods, let detail = entry.detail { return "\(count) \(detail)" }
    let times = count > 1 ? " (\(count) times)" : ""
    let what = entry.action == .idToken ? " (ID token)" : ""
    let account = what + (entry.account.map { " of account \($0.printable(limit: 128))" } ?? "")
    // The broker refuses itself nothing.
    let whom = entry.isRefusal && entry.who.uid == nil ? "a process that the kernel does not name" : entry.who.words
    if entry.result == AuditEntry.notDelivered { return "\(entry.method)\(account) did not get to \(whom)\(times)" }
    if entry.isRefusal { return "refused \(entry.method)\(account) to \(whom)\(times)" }
    let end = entry.result == AuditEntry.ok ? "" : ": \(entry.result)"
    return "\(entry.method)\(account) by \(entry.who.words)\(times)\(end)"
  }

  /// `journalctl GRANTD_ACTION=release GRANTD_ACCOUNT=work` finds them; the names are upper-cased and prefixed there.
  var fields: Logger.Metadata {
    let texts: [(String, String?)] = [
      ("action", entry.action.rawValue), ("method", entry.method), ("result", entry.result),
      ("account", entry.account), ("provider", entry.provider), ("caller_uid", entry.who.uid.map { "\($0)" }),
      ("caller_pid", pid.map { "\($0)" }), ("caller_unit", entry.who.unit),
      ("caller_user_unit", entry.who.userUnit), ("caller_exe", entry.who.executable),
      ("caller_parent", entry.who.parent),
      ("scopes", entry.scopes.isEmpty ? nil : entry.scopes.joined(separator: " ")),
      ("generation", entry.generation.map { "\($0)" }), ("rule", entry.rule), ("detail", entry.detail),
      ("count", count > 1 ? "\(count)" : nil), ("audit_id", "\(id)"),
    ]
    return Logger.Metadata(
      uniqueKeysWithValues: texts.compactMap { name, text in text.map { (name, "\($0.printable(limit: 512))") } })
  }
}

extension AuditCaller {
  /// `mail-sync.service`, or the executable's name, and the user. Escaped: who runs there may have chosen the name.
  var words: String {
    guard let uid else { return "the broker itself" }
    let program = userUnit.map { "user unit \($0)" } ?? unit ?? executable?.split(separator: "/").last.map(String.init)
    return program.map { "\($0.printable(limit: 128)) (uid \(uid))" } ?? "uid \(uid)"
  }
}
