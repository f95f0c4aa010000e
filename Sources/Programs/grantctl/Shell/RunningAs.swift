import ArgumentParser
import Platform

/// As whom a program runs, by this machine's word.
struct RunningAs: Equatable {
  var uid: UInt32
  var gid: UInt32?
  /// The supplementary ones; nil: not known.
  var groups: [UInt32]?

  /// A user as it logs in.
  init(user uid: UInt32) {
    self.uid = uid
    guard let entry = UserDatabase.user(uid) else { return }
    gid = entry.gid
    groups = UserDatabase.groups(of: entry)
  }

  /// What `systemctl show` tells of a unit (systemd.exec(5)). Nil: its user is made when it starts, and it does not run.
  init?(shown values: [String: String]) {
    let name = values["User"] ?? ""
    let user = UInt32(name) ?? (name.isEmpty ? nil : UserDatabase.user(named: name)?.uid)
    if let running = values["UID"].flatMap({ UInt32($0) }) {
      uid = running
    } else if let user {
      uid = user
    } else if name.isEmpty, values["DynamicUser"] != "yes" {
      uid = 0
    } else {
      return nil
    }
    let own = Self.group(values["Group"] ?? "")
    let added = (values["SupplementaryGroups"] ?? "").split(separator: " ").map { Self.group(String($0)) }
    let entry = name.isEmpty ? nil : UserDatabase.user(uid)
    gid = values["GID"].flatMap { UInt32($0) } ?? own ?? entry?.gid ?? (name.isEmpty ? uid : nil)
    guard !added.contains(nil) else { return }
    // With User= those of the user too (initgroups(3)).
    var inherited: [UInt32] = []
    if var entry, let gid {
      entry.gid = gid
      inherited = UserDatabase.groups(of: entry)
    }
    groups = Array(Set(inherited + added.compactMap { $0 })).sorted()
  }

  /// By systemd's word.
  init(unit: String, _ shell: Shell) async throws(Failure) {
    guard shell.terminal.services.system, let systemctl = shell.terminal.programs.find("systemctl") else {
      throw Failure(
        .failure, "systemd does not run here, so the user of a unit is not known", hints: ["Name the user with --uid."])
    }
    let shown = await shell.terminal.machine.run(
      [systemctl, "show", "--property=LoadState,User,Group,SupplementaryGroups,UID,GID,DynamicUser", "--", unit],
      .seconds(10))
    let values = Doctor.properties(shown?.out ?? "")
    guard values["LoadState"] == "loaded" else {
      throw Failure(
        .unknownName, "systemd knows no unit \(SafeText.line(unit))",
        hints: [
          "`systemctl list-units --all` lists them; with --uid the unit need not exist.",
          "A unit of a user's own manager is named with --user-unit.",
        ])
    }
    guard let identity = Self(shown: values) else {
      throw Failure(
        .failure, "the user of \(SafeText.line(unit)) is made when it starts, and it does not run",
        hints: ["Start it, or name a user with --uid."])
    }
    self = identity
  }

  /// The kinds of unit that systemd knows (systemd.unit(5)).
  private static let unitSuffixes = [
    ".service", ".scope", ".socket", ".slice", ".timer", ".path", ".target", ".mount", ".automount", ".swap", ".device",
  ]

  /// A unit as systemctl takes it: without a suffix it is a service.
  static func unitName(_ text: String) -> String {
    text.isEmpty || unitSuffixes.contains(where: text.hasSuffix) ? text : text + ".service"
  }

  /// A user by number or by name, as in rules.
  static func uid(named text: String) throws -> UInt32 {
    if let number = UInt32(text) { return number }
    guard !text.isEmpty, let entry = UserDatabase.user(named: text) else {
      throw ValidationError("this machine has no user “\(SafeText.line(text))”; give the name of a user or a uid.")
    }
    return entry.uid
  }

  private static func group(_ name: String) -> UInt32? {
    UInt32(name) ?? (name.isEmpty ? nil : UserDatabase.group(named: name))
  }
}
