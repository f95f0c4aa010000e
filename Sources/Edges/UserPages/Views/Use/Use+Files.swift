import BrokerAPI
import CredentialHelpers
import HTTPServer
import NIOHTTP1
import Pages

/// A tool's files, changed by `grantctl configure` as the broker's own user: it follows the same steps as in a terminal.
extension Ask {
  private enum Change: String, CaseIterable {
    case write, undo

    var words: [String] { self == .write ? [] : ["--undo"] }
    var button: HTML { self == .write ? "Write" : "Undo" }
    var heading: HTML { self == .write ? "Write it to the tool's files" : "Remove it from the tool's files" }
    var done: String { self == .write ? "the files are written" : "the configuration is removed" }
  }

  private static let nothing = ": nothing to change"

  /// What Write and Undo would change, each with its button.
  func changes(_ selection: Selection, _ commands: any OwnCommands) async -> HTML {
    var html: HTML = ""
    for change in Change.allCases {
      let outcome = await commands.run(selection.words(["--diff"] + change.words), input: nil)
      guard let diff = outcome.output else {
        html += problem(outcome, "\(selection.command) --\(change.rawValue)")
        continue
      }
      if let changed = Self.changed(diff, commands) { html += panel(selection, change, changed) }
    }
    return html
  }

  private func panel(_ selection: Selection, _ change: Change, _ diff: String) -> HTML {
    let fields: [(name: HTML, value: String)] = [
      ("account", selection.account), ("tool", selection.tool.name),
      ("server", form["server"] ?? query["server"] ?? ""),
      ("role", form["role"] ?? query["role"] ?? ""), ("change", change.rawValue), ("seen", pages.mark(of: diff)),
    ]
    let main: HTML = change == .write ? " class=\"main\"" : ""
    return """
      <h3>\(change.heading)</h3><pre class="diff" tabindex="0">\(HTML.lines(diff))</pre>\
      \(form("/use", fields, "<p class=\"controls\"><button\(main)>\(change.button)</button></p>"))
      """
  }

  /// Without the files that stay, and with `~` for the home; nil: all stay.
  private static func changed(_ diff: String, _ commands: any OwnCommands) -> String? {
    let lines = diff.split(separator: "\n").filter { !$0.hasSuffix(nothing) }.map { line in
      for mark in ["---", "+++"] where line.hasPrefix("\(mark) \(commands.home)/") {
        return "\(mark) ~" + line.dropFirst(mark.count + 1 + commands.home.count)
      }
      return String(line)
    }
    return lines.isEmpty ? nil : lines.joined(separator: "\n")
  }

  private func problem(_ outcome: CommandOutcome, _ command: String, look: String? = nil) -> HTML {
    let problem = outcome.problem(command, look: look)
    return Parts.message("bad", problem.what, problem.step)
  }

  func changeFiles() async -> HTTPReply {
    guard let name = form["account"], let tool = form["tool"].flatMap(Tool.named),
      let change = form["change"].flatMap(Change.init(rawValue:))
    else { return page(.notFound, status: .badRequest) }
    switch await call(AccountGet.self, .init(account: name)) {
    case .failure(let error): return page(.failed("Use in …", error, section: .home))
    case .success(let account):
      guard case .made(let made, let selection) = await selected(tool, account, form), !made.edits.isEmpty else {
        return page(.notFound, status: .badRequest)
      }
      guard let commands else {
        let message = Parts.message(
          "bad", "this page does not write your files",
          "Run `\(selection.command) --\(change.rawValue)` in a terminal.")
        return changed(selection, message, status: .forbidden)
      }
      return await apply(change, selection, commands)
    }
  }

  private func apply(_ change: Change, _ selection: Selection, _ commands: any OwnCommands) async -> HTTPReply {
    let command = "\(selection.command) --\(change.rawValue)"
    let now = await commands.run(selection.words(["--diff"] + change.words), input: nil)
    guard let diff = now.output.map({ Self.changed($0, commands) ?? "" }) else {
      return changed(selection, problem(now, command), status: .conflict)
    }
    guard pages.mark(of: diff) == form["seen"] else {
      let message = Parts.message(
        "warn", "the files have changed since this page was loaded, and nothing was written",
        "These are the changes now.")
      return changed(selection, message + (await changes(selection, commands)), status: .conflict)
    }
    let outcome = await commands.run(selection.words(["--\(change.rawValue)"]), input: nil)
    guard outcome.output != nil else {
      let look = "Compare the files with `\(([selection.command, "--diff"] + change.words).joined(separator: " "))`."
      return changed(selection, problem(outcome, command, look: look), again: true, status: .conflict)
    }
    return changed(selection, Parts.message("good", change.done, nil) + (await changes(selection, commands)))
  }

  /// - Parameter again: whether to offer another look at the files.
  private func changed(
    _ selection: Selection, _ main: HTML, again: Bool = false, status: HTTPResponseStatus = .ok
  ) -> HTTPReply {
    let tool = "\(query: selection.account)&amp;tool=\(query: selection.tool.name)" as HTML
    let look: HTML =
      again
      ? """
      <a class="button" href="/use?account=\(tool)&amp;server=\(query: form["server"] ?? "")\
      &amp;role=\(query: form["role"] ?? "")">Look at the files</a>
      """ : ""
    let back: HTML = """
      <p class="controls">\(look)<a class="button" href="/use?account=\(query: selection.account)">Another tool</a></p>
      """
    return page(
      View(
        title: "Use \(selection.account) in \(selection.tool.name)", section: .home,
        main: "<div class=\"panel\"><div id=\"configuration\">\(main)</div>\(back)</div>\n", isStill: true),
      status: status)
  }
}
