public import BrokerAPI
import Grants
public import Principals

extension Rule {
  /// The lines of a rule that allows the caller this and no more, for an admin to take over into the configuration.
  ///
  /// - Parameter account: nil: where all accounts are concerned, or none.
  public static func lines(
    for caller: Principal, account: String?, access: [Access] = [], methods: [String] = []
  ) -> String {
    // An invalid name is not an account: it cannot be copied, and a placeholder is shown.
    let name = account.map { AccountName(rawValue: $0)?.rawValue ?? "ACCOUNT" } ?? "*"
    var lines = ["[[rule]]"] + identity(caller) + ["accounts = [\"\(name)\"]"]
    if !access.isEmpty { lines.append("access = \(list(access.map(\.rawValue)))") }
    if !methods.isEmpty { lines.append("methods = \(list(methods))") }
    return lines.joined(separator: "\n")
  }

  private static func list(_ words: [String]) -> String {
    "[" + words.map { "\"\($0)\"" }.joined(separator: ", ") + "]"
  }

  /// What of the caller will be so the next time too.
  private static func identity(_ caller: Principal) -> [String] {
    switch caller {
    case .process(let process), .unit(_, manager: let process), .peer(let process): identity(process)
    }
  }

  private static func identity(_ caller: Caller) -> [String] {
    let (unit, userUnit) = (lasting(caller.unit), lasting(caller.userUnit))
    var lines: [String] = []
    // `DynamicUser=` takes one of these at each start (systemd.exec(5)).
    if unit == nil || !(61_184...65_519).contains(caller.uid) { lines.append("uid = \(caller.uid)") }
    if let unit { lines.append("unit = \(unit)") }
    if let userUnit { lines.append("user_unit = \(userUnit)") }
    return lines
  }

  /// The unit's name in quotes, if a user chose it: a session or `systemd-run` has another name the next time, and a
  /// user's manager stands for all of the user's programs.
  private static func lasting(_ unit: String?) -> String? {
    guard let unit, unit.hasSuffix(".service"), !unit.hasPrefix("run-"), !unit.hasPrefix("user@"),
      unit.utf8.count <= 255,
      // Also a star would mean more than itself.
      unit.utf8.allSatisfy({
        (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
          || ":-_.\\@".utf8.contains($0)
      })
    else { return nil }
    return "\"\(unit.replacing("\\", with: "\\\\"))\""
  }
}
