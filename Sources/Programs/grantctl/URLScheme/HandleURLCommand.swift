import ArgumentParser
import AsyncClient
import BrokerAPI

struct HandleURLCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "handle-url", abstract: "Handle a callback URL.",
    usage: "grantctl handle-url [<url>] [options]",
    discussion: """
      If a provider sends the browser to a URL of an application's own scheme, such as com.example.app:/callback, the \
      desktop starts the scheme's program. --register makes grantctl this program, only for you; --unregister ends that.

      The URL has a code that is valid once, for the pending login. As an argument it is visible to other processes \
      of this machine for a moment; the desktop has no other method. “-” reads it from standard input.

      Your own broker is asked first, then the system's, unless one is named.

      Examples:
        grantctl handle-url --register com.example.app
        grantctl handle-url - < url
      """)

  @Argument(help: ArgumentHelp("The complete URL; “-” reads it from standard input.", valueName: "url"))
  var url: String?
  @Option(help: ArgumentHelp("Handle the URLs of this scheme.", valueName: "scheme"))
  var register: String?
  @Option(help: ArgumentHelp("Stop handling the URLs of this scheme.", valueName: "scheme"))
  var unregister: String?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard [url, register, unregister].filter({ $0 != nil }).count == 1 else {
      throw ValidationError("Give a URL, --register or --unregister.")
    }
    guard let text = register ?? unregister, URLScheme(text) == nil else { return }
    throw ValidationError(
      "“\(text)” is not a scheme of an application: it has letters, digits, “+”, “-” and “.”, and is none that every "
        + "desktop uses, such as https.")
  }

  func run(in shell: Shell) async throws(Failure) {
    if let scheme = register.flatMap({ URLScheme($0) }) {
      return try await SchemeRegistration(shell: shell, scheme: scheme).register()
    }
    if let scheme = unregister.flatMap({ URLScheme($0) }) {
      return try await SchemeRegistration(shell: shell, scheme: scheme).unregister()
    }
    let address = try await address(shell.terminal)
    let notice = DesktopNotice(shell: shell)
    do throws(Failure) {
      let (json, result, client) = try await hand(address, shell)
      if shell.isJSON { shell.print(json) }
      try await conclude(result, client, notice)
    } catch {
      await notice.failed(error)
      throw error
    }
  }

  private func address(_ terminal: Terminal) async throws(Failure) -> String {
    var text = url ?? ""
    if text == "-" {
      text = ""
      for await line in terminal.lines() {
        text = line.filter { !$0.isWhitespace }
        if !text.isEmpty { break }
      }
    }
    guard text.contains(":") else {
      throw Failure(.usage, "that is not a URL", hints: ["Give the complete URL, with its scheme."])
    }
    return text
  }

  /// Asks each broker that may have the login; whether it is theirs only they can say.
  private func hand(
    _ address: String, _ shell: Shell
  ) async throws(Failure) -> (JSON, LoginHandleCallback.Result, SocketClient) {
    var unanswered: Failure?
    var refused: Failure?
    var last: (JSON, LoginHandleCallback.Result, SocketClient)?
    for choice in shell.choices {
      do throws(Failure) {
        let client = try await shell.connect(to: choice)
        let answer = try await shell.ask(LoginHandleCallback.self, .init(url: address), on: client)
        last = (answer.json, try answer.value(), client)
        if let last, last.1.handled { return last }
      } catch {
        switch (error.rpc?.reason, error.status) {
        case (.invalidCallback?, _): refused = refused ?? error
        case (nil, .notRunning), (nil, .notPermitted), (.notPermitted?, _): unanswered = unanswered ?? error
        default: throw error
        }
      }
    }
    if let refused { throw refused }
    guard last == nil else {
      throw Failure(
        .unknownName, "that URL does not match a pending login",
        hints: ["Start again with `grantctl login`; `grantctl login list` shows the logins that wait."])
    }
    throw unanswered ?? shell.choice.notRunning(shell.terminal.services)
  }

  private func conclude(
    _ result: LoginHandleCallback.Result, _ client: SocketClient, _ notice: DesktopNotice
  ) async throws(Failure) {
    let shell = notice.shell
    if let next = result.next_url {
      guard !(await shell.openBrowser(next, to: "continue")) else { return }
      shell.terminal.note("To continue, open this URL in a browser:\n\(SafeText.line(next))")
      return
    }
    guard let id = result.login_id else { return await notice.notify("Done", "You are signed out.") }
    // Of whoever started it alone; others can go back to their program all the same.
    guard let login = try? await client.call(LoginWait.self, .init(login_id: id, timeout: 0), timeout: Shell.patience)
    else { return await notice.notify("Signed in", "Go back to the program that asked for it.") }
    switch login.state {
    case .completed:
      let account = login.account.map { "as \($0.identity?.bestName ?? $0.account), account \($0.account)" }
      await notice.notify("Signed in", account ?? "Go back to the program that asked for it.")
    case .actionRequired:
      let what = login.action?.message ?? "the provider wants more"
      await notice.notify(
        "Not done yet", "\(what). Go on in the terminal where you signed in, or with grantctl login list.")
    case .pending: await notice.notify("Signing in", "Go back to the program that asked for it.")
    }
  }
}

/// Shows the result on the desktop: the user does not see standard error.
struct DesktopNotice: Sendable {
  let shell: Shell

  func notify(_ title: String, _ text: String) async {
    let isShown = await show(title, text)
    if !isShown || shell.terminal.isErrTTY { shell.terminal.note(SafeText.line("\(title): \(text)")) }
  }

  /// The command says the same on standard error.
  func failed(_ failure: Failure) async {
    let hint = failure.hints.last.map { " \(shell.adapted($0))" } ?? ""
    _ = await show("Sign-in failed", "\(failure.message).\(hint)".replacing("`", with: ""))
  }

  private func show(_ title: String, _ text: String) async -> Bool {
    guard let program = shell.terminal.programs.find("notify-send") else { return false }
    let words = [title, text].map { Self.plain(SafeText.line($0)) }
    return await shell.terminal.programs.launch([program, "--app-name=grantd", "--"] + words)
  }

  /// Notifications have markup in them (Desktop Notifications Specification).
  private static func plain(_ text: String) -> String {
    text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
  }
}
