import BrokerAPI

/// Makes grantctl the program for a scheme's addresses, on this person's desktop, and ends that.
struct SchemeRegistration {
  let shell: Shell
  let scheme: URLScheme

  private var terminal: Terminal { shell.terminal }
  private var path: String { "\(terminal.applications)/\(scheme.desktopFile)" }

  /// The same again changes nothing.
  func register() async throws(Failure) {
    let before = await SchemeHandlers(terminal: terminal).handler(of: scheme)
    let entry = DesktopEntry(
      scheme: scheme.name, program: terminal.ownPath, options: shell.settings.wish.arguments)
    if let reason = terminal.files.replace(path, entry.text) {
      throw Failure(
        .failure, "\(path) cannot be written: \(reason)", hints: ["Correct that, and run the same command again."])
    }
    guard let program = terminal.programs.find("xdg-mime") else {
      throw Failure(
        .failure, "xdg-mime is not installed, so the desktop does not use \(path) yet",
        hints: ["Install xdg-utils, and run the same again."])
    }
    let told = await terminal.machine.run(
      [program, "default", scheme.desktopFile, scheme.mimeType], SchemeHandlers.patience)
    guard let told, told.status == 0 else {
      throw Failure(
        .failure, "xdg-mime did not take \(scheme.desktopFile)",
        hints: told.map { SafeText.lines($0.err) } ?? ["Run the same again."])
    }
    await update()
    if let before, before != scheme.desktopFile {
      terminal.note("Until now \(Cell(before).text) took them. `xdg-mime default` gives them back.")
    }
    if shell.isJSON { return show(isRegistered: true) }
    terminal.print("URLs that begin with \(scheme.name): now end a sign-in.")
  }

  func unregister() async throws(Failure) {
    if let reason = terminal.files.remove(path) {
      throw Failure(
        .failure, "\(path) cannot be removed: \(reason)", hints: ["Correct that, and run the same command again."])
    }
    await update()
    if shell.isJSON { return show(isRegistered: false) }
    terminal.print("URLs that begin with \(scheme.name): no longer go to grantctl.")
  }

  private func show(isRegistered: Bool) {
    shell.print([
      "scheme": .string(scheme.name), "registered": .bool(isRegistered), "desktop_file": .string(path),
    ])
  }

  /// Some desktops look only into the cache that this program makes.
  private func update() async {
    guard let program = terminal.programs.find("update-desktop-database") else { return }
    _ = await terminal.machine.run([program, terminal.applications], SchemeHandlers.patience)
  }
}
