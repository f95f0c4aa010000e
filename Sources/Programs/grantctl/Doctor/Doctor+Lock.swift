import BrokerAPI
import BrokerSocket

// A locked broker (docs/lock.md): the checks that need no key.
extension Doctor {
  private static let later = "checked after the unlock"

  func lockedItems(_ status: BrokerStatus.Result, _ choice: SocketChoice) async -> [DoctorReport.Item] {
    let instance = instance(of: choice.path)
    // A locked broker reports the folder of the database.
    let folder = status.store.path
    var store = status.store
    store.path = folder + "/grantd.db"
    var items = [
      await unit(instance, answers: true), socket(choice, nil), version(status),
      DoctorReport.Item(
        "lock", .failed, "the broker is locked: it returns no token, and refreshes none",
        hint: "`grantctl unlock` unlocks it. Then `grantctl doctor` checks the rest."),
      await configuration(
        instance ?? Instance(rawValue: status.instance), file: status.configuration.path, changed: false,
        loading: "grantctl unlock"),
      lockedKey(folder), disk(store),
    ]
    if let copies = damagedCopies(store) { items.append(copies) }
    items.append(await clock(status, next: "each provider's clock is \(Self.later)"))
    for name in ["store", "callback", "listeners", "providers", "accounts"] {
      items.append(DoctorReport.Item(name, .skipped, Self.later))
    }
    return items
  }

  private func lockedKey(_ folder: String) -> DoctorReport.Item {
    let path = folder + "/grantd.key.locked"
    switch machine.look(path) {
    case .hidden: return DoctorReport.Item("key", .skipped, "only the daemon's user and root see the state folder")
    case .absent:
      return DoctorReport.Item(
        "key", .failed, "there is no \(path), which the passphrase opens",
        hint: "Put your copy of the key where grantd reads it (\(folder)/grantd.key without `key_file`), and remove "
          + "\(folder)/grantd.locked.")
    case .found(let file) where file.isOpenToOthers:
      return DoctorReport.Item(
        "key", .warning, "\(path) has mode \(file.modeText): others may try passphrases on it",
        hint: "`chmod 600 \(ShellWord.quoted(path))`")
    case .found(let file): return DoctorReport.Item("key", .ok, "\(path), mode \(file.modeText), under the passphrase")
    }
  }
}
