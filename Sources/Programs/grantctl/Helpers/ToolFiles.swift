import BrokerAPI
import CredentialHelpers
import Glibc

/// The files of other programs: shown, written with a backup beside them, and put right again.
struct ToolFiles {
  enum Purpose { case show, write, undo }
  enum Extent {
    /// Writes.
    case whole
    /// Prints the changed lines only.
    case difference
    /// Only finds out whether something is against it.
    case check
  }

  /// Bytes of a program's configuration.
  private static let longest = 1 << 20
  private static let backup = ".grantd-backup"
  private static let patience = Duration.seconds(20)

  let shell: Shell
  /// The configuration was printed before.
  private let isShown: Bool
  private var extent = Extent.whole
  /// What was there before this wrote; nil: nothing.
  private var replaced: [(path: String, before: String?)] = []
  private var terminal: Terminal { shell.terminal }

  init(shell: Shell, isShown: Bool = false) {
    self.shell = shell
    self.isShown = isShown
  }

  /// All edits or none: an edit that fails takes the earlier ones back.
  mutating func apply(
    _ edits: [ToolConfiguration.Edit], _ purpose: Purpose, isDifference: Bool = false
  ) async throws(Failure) {
    if purpose != .show {
      extent = .check
      for edit in edits { try await apply(edit, purpose) }
    }
    extent = isDifference ? .difference : .whole
    replaced = []
    do throws(Failure) {
      for edit in edits { try await apply(edit, purpose) }
    } catch {
      throw Failure(error.status, error.message, hints: error.hints + takenBack())
    }
  }

  private func takenBack() -> [String] {
    replaced.reversed().map { path, before in
      let reason =
        before.map { terminal.files.rewrite(path, Array($0.utf8), path) } ?? terminal.files.remove(path)
      return SafeText.line(
        reason.map { "\(path) was changed, and cannot be restored: \($0)" } ?? "\(path) is as before.")
    }
  }

  private mutating func apply(_ edit: ToolConfiguration.Edit, _ purpose: Purpose) async throws(Failure) {
    if purpose != .show { try checkHome() }
    switch edit {
    case .text(let edit): try text(edit, purpose)
    case .json(let name, let member): try json(path(name), member, purpose)
    case .kubectl(let entry, let write, let undo): try await kubectl(entry, purpose == .undo ? undo : write, purpose)
    }
  }

  /// root writes no file in the home of another user: that user could lead it elsewhere by a link, and read the copy.
  private func checkHome() throws(Failure) {
    let home = terminal.environment["HOME"] ?? ""
    var status = stat()
    guard geteuid() == 0, stat(home, &status) == 0, status.st_uid != 0 else { return }
    throw Failure(
      .failure, "HOME is \(SafeText.line(home)), which belongs to uid \(status.st_uid)",
      hints: ["Run it as that user: `sudo -H -u '#\(status.st_uid)' grantctl configure …`."])
  }

  private func path(_ name: String) -> String {
    if name.hasPrefix("$CONFIG") { return terminal.configurationFolder + name.dropFirst("$CONFIG".count) }
    return (terminal.environment["HOME"] ?? "") + name.dropFirst("$HOME".count)
  }

  private mutating func text(_ edit: TextEdit, _ purpose: Purpose) throws(Failure) {
    let (path, block) = (path(edit.file), edit.block)
    guard purpose != .show else { return show(path, block.whole) }
    let before = try content(path)
    let old = before ?? ""
    if purpose == .undo, let shared = edit.shared,
      let other = shared.other(in: try content(self.path(shared.file)) ?? "")
    {
      return show("\(path): stays, since \(other) needs it")
    }
    if purpose == .write, let line = block.conflict(in: old, with: edit.conflicts) {
      throw Failure(
        .failure, "\(path) has the line “\(SafeText.line(line))”, which this would contradict",
        hints: [edit.byHand.map { "Add by hand: \($0)" } ?? "Merge it by hand: without --write it is printed."])
    }
    let new = purpose == .write ? block.merged(into: old) : block.removed(from: old)
    try replace(path, before, with: new, showing: block.whole, purpose)
  }

  private mutating func json(_ path: String, _ member: JSONMember, _ purpose: Purpose) throws(Failure) {
    guard let added = member.merged(into: [:]) else { return }
    guard purpose != .show else { return show(path, added.pretty() + "\n") }
    let before = try content(path)
    let json: JSON
    do throws(JSONError) {
      json = try before.map { text throws(JSONError) in try JSON.parse(Array(text.utf8)) } ?? [:]
    } catch {
      throw Failure(
        .failure, "\(path) is not valid JSON: \(error)", hints: ["Merge it by hand: without --write it is printed."])
    }
    if purpose == .write, let other = member.conflict(in: json) {
      let words = other.string ?? other.text()
      throw Failure(
        .failure,
        "\(path) has “\(SafeText.line(words))” for \(member.path.last ?? "") in "
          + "\(member.path.dropLast().joined(separator: ".")), which this would replace",
        hints: ["Remove it first, if grantd must answer there."])
    }
    guard let merged = purpose == .write ? member.merged(into: json) : member.removed(from: json) else {
      throw Failure(.failure, "\(path): \(member.path.dropLast().joined(separator: ".")) is not an object")
    }
    // A file in which nothing changes keeps its form, and the form of before comes back.
    let backup = purpose == .undo ? try content(path + Self.backup) : nil
    let isBackup = backup.flatMap { try? JSON.parse(Array($0.utf8)) } == merged
    let new = merged == json ? before ?? "" : isBackup ? backup ?? "" : merged.pretty() + "\n"
    // Each member on a line: none with another's value is shown.
    if extent == .difference {
      return compare(path, before == nil ? nil : json.pretty(width: 0), merged.pretty(width: 0))
    }
    try replace(path, before, with: new, showing: added.pretty() + "\n", purpose)
  }

  private func show(_ text: String) {
    guard extent != .check else { return }
    terminal.print(SafeText.line(text))
  }

  private func compare(_ path: String, _ old: String?, _ new: String?) {
    let lines = UnifiedDiff.lines(path, old, new)
    terminal.print(lines.isEmpty ? [SafeText.line("\(path): nothing to change")] : lines.map(SafeText.indented))
  }

  private func show(_ path: String, _ text: String) {
    terminal.note("# \(SafeText.line(path))")
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { SafeText.indented(String($0)) }
    // The last one is behind the newline that ends the text.
    terminal.print(lines.last == "" ? Array(lines.dropLast()) : lines)
  }

  private func content(_ path: String) throws(Failure) -> String? {
    guard terminal.files.exists(path) else { return nil }
    switch terminal.files.bytes(path, Self.longest) {
    case .unreadable(let reason): throw Failure(.failure, "\(path) cannot be read: \(reason)")
    case .bytes(let bytes, _):
      guard let text = String(validating: bytes, as: UTF8.self) else { throw Failure(.failure, "\(path) is not UTF-8") }
      return text
    }
  }

  private mutating func replace(
    _ path: String, _ before: String?, with new: String, showing text: String, _ purpose: Purpose
  ) throws(Failure) {
    // A file that contained only this is removed.
    let isRemoved = purpose == .undo && new.isEmpty
    if extent == .difference { return compare(path, before, isRemoved ? nil : new) }
    guard new != before ?? "" else { return show("\(path): nothing to change") }
    guard extent == .whole else { return }
    if purpose == .write, !isShown { show(path, text) }
    if purpose == .write, let before { try save(path + Self.backup, before, like: path) }
    if isRemoved {
      if let reason = terminal.files.remove(path) { throw Failure(.failure, "\(path) cannot be removed: \(reason)") }
      replaced.append((path, before))
    } else {
      try save(path, new, like: path)
    }
    let kept = before == nil || purpose == .undo ? "" : "; the file of before is \(path)\(Self.backup)"
    terminal.print(SafeText.line("\(path): \(purpose == .write ? "written" : "removed")\(kept)"))
  }

  private mutating func save(_ path: String, _ text: String, like original: String) throws(Failure) {
    let before = try content(path)
    guard let reason = terminal.files.rewrite(path, Array(text.utf8), original) else {
      return replaced.append((path, before))
    }
    throw Failure(.failure, "\(path) cannot be written: \(reason)")
  }

  /// kubectl's own rule: the file of KUBECONFIG that has the entry, else the first that is there, else the last.
  private func kubeconfig(of entry: String) throws(Failure) -> (path: String, isListed: Bool) {
    let listed = Kubeconfig.paths(terminal.environment["KUBECONFIG"])
    guard let last = listed.last else { return (path("$HOME/.kube/config"), false) }
    var first: String?
    for path in listed {
      guard let text = try content(path) else { continue }
      if Kubeconfig.has(entry, in: text) { return (path, true) }
      first = first ?? path
    }
    return (first ?? last, true)
  }

  private mutating func kubectl(_ entry: String, _ words: [String], _ purpose: Purpose) async throws(Failure) {
    let (path, isListed) = try kubeconfig(of: entry)
    let command = ["kubectl", "config"] + words + (isListed ? ["--kubeconfig=\(path)"] : [])
    let line = SafeText.line(command.map(ShellWord.quoted).joined(separator: " "))
    guard purpose != .show, extent != .difference else { return terminal.printWhole(line) }
    guard extent == .whole else {
      if terminal.programs.find(command[0]) == nil { throw Failure(.failure, "\(command[0]) is not here") }
      return
    }
    // Not the file that this wrote before.
    if purpose == .write, let before = try content(path),
      !(Kubeconfig.has(entry, in: before) && terminal.files.exists(path + Self.backup))
    {
      try save(path + Self.backup, before, like: path)
    }
    guard let program = terminal.programs.find(command[0]) else {
      throw Failure(.failure, "\(command[0]) is not here")
    }
    terminal.printWhole(line)
    let ended = await terminal.machine.run([program] + command.dropFirst(), Self.patience)
    // An entry that does not exist needs no removal.
    guard purpose == .write, ended?.status != 0 else { return }
    throw Failure(.failure, "\(command[0]) did not take it", hints: ended.map { SafeText.lines($0.err) } ?? [])
  }
}
