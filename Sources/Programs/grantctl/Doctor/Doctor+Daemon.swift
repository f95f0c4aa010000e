import BrokerAPI
import BrokerSocket
import PlainText

// What the daemon says of itself, and what of its state folder can be seen from here.
extension Doctor {
  /// Bytes: below the first the state is about to fail, below the second somebody should look.
  private static let tooFull: Int64 = 16 << 20
  private static let nearlyFull: Int64 = 128 << 20

  func daemonItems(_ status: BrokerStatus.Result, _ choice: SocketChoice) async -> [DoctorReport.Item] {
    let instance = instance(of: choice.path)
    var items = [await unit(instance, answers: true), socket(choice, nil)]
    if let socket = credentials(choice) { items.append(socket) }
    items += [version(status), policy(status)]
    if let hold = status.hold {
      items.append(DoctorReport.Item("releases", .warning, "all releases of tokens are held", hint: hold.hint))
    }
    let changed = isChanged(status)
    items.append(
      await configuration(
        instance ?? Instance(rawValue: status.instance), file: status.configuration.path, changed: changed))
    items.append(store(status.store))
    if let sharing = status.sharing {
      items += self.sharing(sharing)
    } else {
      items += [key(status.store), disk(status.store)]
      if let copies = damagedCopies(status.store) { items.append(copies) }
    }
    items += (status.set_aside ?? []).map { DoctorReport.Item("row \($0.row)", .failed, $0.message, hint: $0.hint) }
    items += [await clock(status, next: "each provider's clock is compared with it"), callback(status)]
    items += listeners(status.listeners ?? []) + files(status.files ?? [])
    return items
  }

  func version(_ status: BrokerStatus.Result) -> DoctorReport.Item {
    let running = "pid \(status.pid), running for \(TimeText.duration(shell.now - status.started_at))"
    guard status.version != GrantdVersion.current else {
      return DoctorReport.Item("version", .ok, "grantd and grantctl \(status.version), \(running)")
    }
    return DoctorReport.Item(
      "version", .warning, "grantd \(status.version), \(running); grantctl \(GrantdVersion.current)",
      hint: "After an upgrade: \(shell.terminal.services.restart(status.instance == "user" ? .user : .system))")
  }

  private func policy(_ status: BrokerStatus.Result) -> DoctorReport.Item {
    guard let caller = status.caller else { return DoctorReport.Item("policy", .skipped, "this grantd does not say") }
    let kinds = Access.allCases.filter { $0 != .open }
    let allowed = kinds.filter { caller.access[$0.rawValue] != nil }
    let words = allowed.map { "\($0.rawValue) \((caller.access[$0.rawValue] ?? []).joined(separator: " "))" }
    if kinds.allSatisfy({ caller.access[$0.rawValue] == ["*"] }) {
      return DoctorReport.Item("policy", .ok, "you (uid \(caller.uid)) may do everything here")
    }
    let denied = kinds.filter { !allowed.contains($0) }.map(\.rawValue)
    let text = "you (uid \(caller.uid)) may \(words.joined(separator: ", "))"
    guard !allowed.contains(.use) else {
      return DoctorReport.Item("policy", .ok, text + (denied.isEmpty ? "" : "; not \(denied.joined(separator: ", "))"))
    }
    return DoctorReport.Item(
      "policy", .warning, "\(text); no token of any account",
      hint: "If you need tokens, an admin adds a [[rule]] with uid = \(caller.uid), accounts and access = [\"use\"].")
  }

  private func isChanged(_ status: BrokerStatus.Result) -> Bool {
    guard let path = status.configuration.path, case .found(let file) = machine.look(path) else { return false }
    return file.modifiedAt > status.configuration.loaded_at
  }

  // MARK: The store

  private func store(_ store: BrokerStatus.StoreView) -> DoctorReport.Item {
    guard store.state != "ok" else { return DoctorReport.Item("store", .ok, store.path) }
    let since = store.since.map { " since \(TimeText.ago($0, now: shell.now))" } ?? ""
    let held = store.held_back.flatMap { $0 > 0 ? "; \($0) refresh\($0 == 1 ? " is" : "es are") held back" : nil } ?? ""
    return DoctorReport.Item(
      "store", store.isWarning ? .warning : .failed,
      "\(store.state)\(since): \(store.message ?? store.path)\(held)",
      hint: store.hint ?? "See the disk of \(store.path) and the daemon's log; it recovers by itself.")
  }

  private func files(_ files: [BrokerStatus.FileView]) -> [DoctorReport.Item] {
    guard !files.isEmpty else { return [] }
    let troubled = files.filter { $0.state != "ok" }
    let disputed = files.filter { $0.isRestored(at: shell.now) }.map { file in
      DoctorReport.Item(
        "token file", .warning, file.restoration(shell.now), hint: BrokerStatus.FileView.restorationHint)
    }
    guard !troubled.isEmpty || !disputed.isEmpty else {
      return [DoctorReport.Item("token files", .ok, "\(files.count), each with the latest token")]
    }
    return disputed
      + troubled.map { file in
        DoctorReport.Item(
          "token file", file.state == "stale" ? .warning : .failed,
          "\(file.path) is \(file.state): \(file.message ?? file.reason ?? "no reason is given")", hint: file.hint)
      }
  }

  private func listeners(_ listeners: [BrokerStatus.ListenerView]) -> [DoctorReport.Item] {
    listeners.map { listener in
      guard listener.state != "ok" else { return DoctorReport.Item(listener.setting, .ok, listener.address) }
      return DoctorReport.Item(
        listener.setting, .failed, listener.message ?? "\(listener.address) is not served", hint: listener.hint)
    }
  }

  private func folder(_ store: BrokerStatus.StoreView) -> String {
    "/" + store.path.split(separator: "/").dropLast().joined(separator: "/")
  }

  private func key(_ store: BrokerStatus.StoreView) -> DoctorReport.Item {
    let folder = folder(store)
    let path = folder + "/grantd.key"
    switch machine.look(path) {
    case .hidden: return DoctorReport.Item("key", .skipped, "only the daemon's user and root see the state folder")
    case .absent: return DoctorReport.Item("key", .ok, "not in the state folder: a credential, or key_file")
    case .found(let file) where file.isOpenToOthers:
      return DoctorReport.Item(
        "key", .failed, "\(path) has mode \(file.modeText): others may read what unseals all tokens",
        hint: "`chmod 600 \(path)`; then look who could have read it, and sign in again if in doubt.")
    case .found(let file):
      if case .found(let above) = machine.look(folder), above.isOpenToOthers {
        return DoctorReport.Item(
          "key", .warning, "\(path) has mode \(file.modeText), and its folder \(above.modeText)",
          hint: "`chmod 700 \(folder)`")
      }
      return DoctorReport.Item("key", .ok, "\(path), mode \(file.modeText)")
    }
  }

  func disk(_ store: BrokerStatus.StoreView) -> DoctorReport.Item {
    let folder = folder(store)
    guard let free = machine.freeBytes(folder) else {
      return DoctorReport.Item("disk", .skipped, "the disk of \(folder) cannot be seen")
    }
    let text = "\(Self.size(free)) free at \(folder)"
    guard free < Self.nearlyFull else { return DoctorReport.Item("disk", .ok, text) }
    return DoctorReport.Item(
      "disk", free < Self.tooFull ? .failed : .warning, text,
      hint:
        "Free disk space. grantd pauses refreshes while it cannot save new tokens. `du -xh \(folder)`, `df -h`.")
  }

  /// The copies that were put aside when the database could not be read.
  func damagedCopies(_ store: BrokerStatus.StoreView) -> DoctorReport.Item? {
    let folder = folder(store)
    let sidecars = ["-wal", "-shm", "-journal"]
    let copies = (machine.names(folder) ?? []).filter { name in
      name.hasPrefix("grantd.db.damaged-") && !sidecars.contains(where: name.hasSuffix)
    }.sorted()
    guard let latest = copies.last else { return nil }
    return DoctorReport.Item(
      "damaged copies", .warning, "\(copies.count) in \(folder), the latest \(latest)",
      hint: "The database could not be read, and was written again from memory. Check the disk (`dmesg`, smartctl), "
        + "see that all accounts exist, then remove the copies.")
  }

  static func size(_ bytes: Int64) -> String {
    let units = [(Int64(1) << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")]
    for (size, name) in units where bytes >= size { return "\(bytes / size) \(name)" }
    return "\(bytes) bytes"
  }

  // MARK: Clock and callback

  /// - Parameter next: a clause about the providers' clocks, for the end of a message.
  func clock(_ status: BrokerStatus.Result, next: String) async -> DoctorReport.Item {
    if let clock = status.clock { return DoctorReport.Item("clock", .failed, clock.message, hint: clock.hint) }
    guard let timedatectl = shell.terminal.programs.find("timedatectl"),
      let answer = await machine.run([timedatectl, "show", "--property=NTPSynchronized"], Self.childTimeout),
      answer.status == 0, let synchronized = Self.properties(answer.out)["NTPSynchronized"]
    else { return DoctorReport.Item("clock", .skipped, "timedatectl does not say if it is synchronized; \(next)") }
    guard synchronized != "yes" else { return DoctorReport.Item("clock", .ok, "synchronized") }
    return DoctorReport.Item(
      "clock", .warning, "not synchronized; \(next)", hint: "`sudo timedatectl set-ntp true` turns that on.")
  }

  private func callback(_ status: BrokerStatus.Result) -> DoctorReport.Item {
    guard status.callback.isEmpty else {
      return DoctorReport.Item("callback", .ok, status.callback.joined(separator: ", "))
    }
    return DoctorReport.Item(
      "callback", .warning, "the callback endpoint does not listen: no browser comes back by itself",
      hint: "Is `enabled` false in [callback], or the port taken (the log says)? Until then: `grantctl login PROVIDER "
        + "--manual`.")
  }
}
