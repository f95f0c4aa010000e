import BrokerAPI

/// Opens the first possible destination for the user to sign in, in the order in which the broker offers them.
struct LoginDestinations: Sendable {
  let shell: Shell
  /// Programs may be started.
  var isBrowserWanted: Bool
  var qr = QRWish.auto
  /// An app was asked for: that it is not here is worth a note.
  var namesAbsentApps = false

  /// The user whose browser it has to be, where that is another one than runs this program.
  var otherUser: UInt32?

  /// Tells the broker of an application before it opens: what comes back from that may be for this login alone.
  typealias Tell = @Sendable (LoginWait.Opened) async -> Void

  /// Where a person is.
  struct Opened: Sendable {
    /// Nil where the broker knows that already.
    var destination: LoginWait.Opened?
    /// An address may be pasted.
    var reads = false
    /// There is no other way than that.
    var isManual = false
    /// When it is too late, where the place says, in Unix seconds.
    var expiresAt: Int64?
  }

  private var terminal: Terminal { shell.terminal }
  private var whose: String? { otherUser.map { "of \(terminal.users($0))" } }

  /// Nil where none of the places is known.
  func open(_ destinations: [Destination], at provider: String, tell: Tell) async -> Opened? {
    let purpose = "sign in at \(Cell(provider).text)"
    var absent: [String] = []
    for (index, destination) in destinations.enumerated() {
      guard !Task.isCancelled else { return nil }
      if destination.kind != "native" { noteAbsent(&absent) }
      let later = destinations[(index + 1)...]
      switch (destination.kind, destination.url) {
      case ("native", let url?):
        if let opened = await openApp(destination, url, to: purpose, &absent, tell) { return opened }
      case ("browser", let url?):
        if let opened = await openBrowser(destination, url, to: purpose, later: later) { return opened }
      case ("device", _):
        guard let page = DevicePage(destination) else { continue }
        page.show(provider: provider, qr, in: shell)
        return Opened(destination: .init(kind: "device"), expiresAt: page.expiresAt)
      case ("manual", let url?): return show(url, to: purpose, among: destinations)
      default: continue
      }
    }
    noteAbsent(&absent)
    return nil
  }

  /// Applications that are not here are one note.
  private func noteAbsent(_ apps: inout [String]) {
    guard namesAbsentApps, !apps.isEmpty else { return }
    let names = apps.joined(separator: ", ")
    terminal.note(
      SafeText.line("Not on this machine: the app\(apps.count == 1 ? "" : "s") \(names). Going on without."))
    apps = []
  }

  private func openApp(
    _ destination: Destination, _ url: String, to purpose: String, _ absent: inout [String], _ tell: Tell
  ) async -> Opened? {
    guard isBrowserWanted, otherUser == nil else { return nil }
    let app = destination.app ?? "of the provider"
    // No program of Linux claims addresses of the web.
    guard let scheme = URLScheme(of: url), let command = Browser.opener(for: url, on: terminal),
      await SchemeHandlers(terminal: terminal).handler(of: scheme) != nil
    else {
      absent.append(app)
      return nil
    }
    noteAbsent(&absent)
    let opened = LoginWait.Opened(kind: "native", app: destination.app)
    await tell(opened)
    let isOpen = await terminal.programs.launch(command)
    // The user has ended it.
    guard !Task.isCancelled else { return nil }
    guard isOpen else {
      terminal.note(SafeText.line("The app \(app) did not open. Going on without."))
      return nil
    }
    terminal.note(SafeText.line("The app \(app) opens to \(purpose)."))
    return await waiting(for: opened, destination)
  }

  private func openBrowser(
    _ destination: Destination, _ url: String, to purpose: String, later: ArraySlice<Destination>
  ) async -> Opened? {
    if isBrowserWanted {
      if await shell.openBrowser(url, to: purpose, of: otherUser) {
        return await waiting(for: .init(kind: "browser"), destination)
      }
      guard !Task.isCancelled else { return nil }
      if later.contains(where: { $0.kind == "manual" && $0.url != nil || DevicePage($0) != nil }) { return nil }
    }
    // The browser's own address is good on this machine alone. Where an address can be pasted, it may be on another.
    let anywhere = terminal.canAsk ? later.first { $0.kind == "manual" } : nil
    shell.show(anywhere?.url ?? url, to: purpose, whose: whose)
    let reads = anywhere != nil
    if reads { notePasting() }
    return Opened(destination: .init(kind: "browser"), reads: reads)
  }

  /// The last resort: the address, to be opened anywhere. Where it ends may call back by itself.
  private func show(_ url: String, to purpose: String, among destinations: [Destination]) -> Opened {
    shell.show(url, to: purpose, whose: whose)
    let isManual = !destinations.contains { $0.kind == "browser" }
    if isManual {
      terminal.note("Then paste the final URL of the browser here, and press Enter.")
    } else if terminal.canAsk {
      notePasting()
    }
    return Opened(destination: .init(kind: "manual"), reads: isManual || terminal.canAsk, isManual: isManual)
  }

  private func notePasting() {
    terminal.note(
      "If the browser runs on another machine, paste its final URL here, and press Enter.")
  }

  /// What opened comes back by itself, unless it ends at an address that no program here takes.
  private func waiting(for opened: LoginWait.Opened, _ destination: Destination) async -> Opened {
    guard let scheme = destination.redirect_uri.flatMap(URLScheme.init(of:)),
      await SchemeHandlers(terminal: terminal).handler(of: scheme) == nil
    else { return Opened(destination: opened) }
    let what = terminal.canAsk ? "Paste this complete URL here, and press Enter." : "Pass this complete URL to:"
    let command = terminal.canAsk ? [] : ["  " + shell.command("handle-url -")]
    let lines = [
      "The browser will end at a URL that begins with \(scheme.name):, and no program here handles those.", what,
    ]
    let later = ["To handle it automatically next time:", "  " + shell.command("handle-url --register \(scheme.name)")]
    terminal.note((lines + command + later).joined(separator: "\n"))
    return Opened(destination: opened, reads: terminal.canAsk)
  }
}
