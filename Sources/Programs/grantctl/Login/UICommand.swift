import ArgumentParser
import BrokerAPI
import PlainText

struct UICommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "ui", abstract: "Open the web page of your accounts.",
    usage: "grantctl ui [options]",
    discussion: """
      Opens a page in your browser, with your accounts, pending approvals, access and activity. The broker listens on a \
      loopback port while the page is open. The link works once, in your own browser on this machine.

      Over ssh the command prints the link, and the ssh command that forwards its port.

      Examples:
        grantctl ui
        grantctl ui --no-browser
        sudo grantctl ui --system
      """)

  @Flag(help: "Print the link instead of opening the browser.")
  var noBrowser = false
  @Option(
    help: ArgumentHelp("The user whose browser opens the page. Default: you, also through sudo.", valueName: "user"),
    transform: RunningAs.uid(named:))
  var browserUid: UInt32?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let terminal = shell.terminal
    let browser = browserUid ?? BrowserOwner.invoker(terminal)
    let other = browser == terminal.uid ? nil : browser
    let answer = try await shell.ask(UIOpen.self, .init(browser_uid: other))
    if shell.isJSON { return shell.print(answer.json) }
    let opened = try answer.value()
    let purpose = "see your accounts"
    let isOverSSH = terminal.environment["SSH_CONNECTION"] != nil
    if !noBrowser, !isOverSSH || terminal.hasDisplay {
      if await shell.openBrowser(opened.url, to: purpose, of: other) { return }
    }
    if isOverSSH { forward(opened.port, in: terminal) }
    shell.show(opened.url, to: purpose, whose: other.map { "of \(terminal.users($0))" })
    terminal.note("The link works once, within \(TimeText.duration(opened.expires_at - shell.now)).")
  }

  /// `SSH_CONNECTION` is the client's address and port, then the server's (ssh(1)).
  private func forward(_ port: Int, in terminal: Terminal) {
    let parts = terminal.environment["SSH_CONNECTION"]?.split(separator: " ") ?? []
    let user = terminal.environment["USER"].map { ShellWord.quoted($0) + "@" } ?? ""
    let host = parts.count == 4 ? ShellWord.quoted(String(parts[2])) : "HOST"
    terminal.note("On the machine with the browser, forward the port first:")
    terminal.note(SafeText.line("  ssh -N -L \(port):127.0.0.1:\(port) \(user)\(host)"))
  }
}
