import BrokerAPI
import CredentialHelpers
import HTTPServer
import NIOHTTP1
import Pages

/// How programs use an account: what `grantctl configure` prints, and snippets.
extension Ask {
  func use() async -> HTTPReply {
    guard let name = query["account"] else { return page(.notFound, status: .notFound) }
    switch await call(AccountGet.self, .init(account: name)) {
    case .failure(let error): return page(.failed("Use in …", error, section: .home))
    case .success(let account):
      let tool = query["tool"].flatMap(Tool.named)
      return page(
        View(
          title: "Use \(name) in …", section: .home,
          lead: "<p class=\"lead\">No program stores a token: it asks grantd each time.</p>",
          main: """
            <div class="panel"><h2>A tool</h2>\(toolForm(name, tool))\(await tool.asyncMap { await configuration($0, account) })</div>
            <h2>Your own program</h2><div class="panels large">\(await snippets(account))</div>

            """, isStill: true))
    }
  }

  private func toolForm(_ account: String, _ tool: Tool?) -> HTML {
    let options = Tool.all.map { one -> HTML in
      let selected: HTML = one.name == tool?.name ? " selected" : ""
      return "<option value=\"\(one.name)\"\(selected)>\(one.name)</option>"
    }
    return """
      <form method="get" action="/use"><input type="hidden" name="account" value="\(account)"><div class="row">\
      <div><label for="tool">Tool</label><select id="tool" name="tool">\(options)</select></div>\
      <div><label for="server">Server, if the tool has one</label><input id="server" name="server" \
      value="\(query["server"] ?? "")" placeholder="git.example.com" autocomplete="off"></div>\
      <div><label for="role">User or role, if needed</label><input id="role" name="role" value="\(query["role"] ?? "")" \
      autocomplete="off"></div><div class="go"><button>Show</button></div></div></form>

      """
  }

  /// What a tool's configuration is made from.
  struct Selection {
    let tool: Tool
    let account: String
    var server: String?
    var user: String?
    var role: String?

    /// As a user types it.
    var command: String {
      (["grantctl configure", tool.name, account] + [server].compactMap { $0 } + options).joined(separator: " ")
    }

    private var options: [String] { (user.map { ["--as", $0] } ?? []) + (role.map { ["--role", $0] } ?? []) }

    /// The arguments of `grantctl`: no text of the user is taken for an option.
    func words(_ purpose: [String]) -> [String] {
      let given = (user.map { ["--as=\($0)"] } ?? []) + (role.map { ["--role=\($0)"] } ?? [])
      return ["configure"] + purpose + given + ["--", tool.name, account] + [server].compactMap { $0 }
    }
  }

  enum Selected {
    case made(ToolConfiguration, Selection)
    case missing(HTML)
  }

  private func configuration(_ tool: Tool, _ account: AccountView) async -> HTML {
    switch await selected(tool, account, query) {
    case .missing(let message): return message
    case .made(let made, let selection):
      let notes = made.notes.map { note -> HTML in "<p class=\"soft\">\(note)</p>" }
      if let commands, !made.edits.isEmpty {
        return "<div id=\"configuration\">\(await changes(selection, commands))\(notes)</div>\n"
      }
      let edits = made.edits.map(edit)
      let write: HTML =
        made.edits.isEmpty
        ? ""
        : """
        <p>Write it, with a copy of each file; and undo it:</p>\
        <pre tabindex="0">\(HTML.lines("\(selection.command) --write\n\(selection.command) --undo"))</pre>
        """
      return "<div id=\"configuration\">\(edits)\(notes)\(write)</div>\n"
    }
  }

  func selected(_ tool: Tool, _ account: AccountView, _ fields: Fields) async -> Selected {
    let (server, role) = (fields["server"] ?? "", fields["role"] ?? "")
    guard [server, role, account.account].allSatisfy({ $0.isEmpty || Self.isPlain($0) }) else {
      return .missing(
        Parts.message(
          "bad", "this text is not valid in a configuration", "Use letters, digits and .-_:/@ only."))
    }
    func missing(_ what: String, _ step: String) -> Selected { .missing(Parts.message("neutral", what, step)) }
    var target = ToolTarget(account: account.account, place: ServerLocation(server), address: server, user: role)
    var selection = Selection(tool: tool, account: account.account)
    switch tool.need {
    case .nothing: break
    case .host, .mailServer, .address:
      guard let place = target.place, tool.need != .address || place.scheme != nil else {
        let example = tool.need == .address ? "https://pypi.example.com/simple/" : "git.example.com"
        return missing("\(tool.name) needs its server", "Enter it above, such as \(example).")
      }
      selection.server = server
      if tool.need == .mailServer, role.isEmpty { target.user = account.identity?.email ?? "" }
      if tool.need == .mailServer, target.user.isEmpty {
        return missing("\(tool.name) needs the user at the server", "Enter it above.")
      }
      if !role.isEmpty { selection.user = role }
    case .audience:
      guard server.hasPrefix("//iam.googleapis.com/") else {
        return missing(
          "\(tool.name) needs its audience",
          "Enter the pool's provider as the server: //iam.googleapis.com/projects/NUMBER/….")
      }
      selection.server = server
    case .role, .vaultRole:
      guard !role.isEmpty else {
        let step = tool.need == .role ? "Enter its ARN above." : "Enter its name above."
        return missing("\(tool.name) needs a role", step)
      }
      target.role = role
      selection.role = role
    case .forward:
      switch await forwardURL(account, server) {
      case .success(let url): target.address = url
      case .failure(let problem): return missing(problem.what, problem.step)
      }
      if !server.isEmpty { selection.server = server }
    }
    return .made(tool.make(target), selection)
  }

  private func edit(_ edit: ToolConfiguration.Edit) -> HTML {
    func shown(_ file: String, _ text: String) -> HTML {
      let name = file.replacing("$HOME", with: "~").replacing("$CONFIG", with: "~/.config")
      return "<p class=\"mono\">\(name)</p><pre tabindex=\"0\">\(HTML.lines(text))</pre>\n"
    }
    switch edit {
    case .text(let edit): return shown(edit.file, edit.block.whole)
    case .json(let file, let member):
      return shown(file, (member.merged(into: [:]) ?? [:]).pretty())
    case .kubectl(_, let write, _):
      return "<pre tabindex=\"0\">\(HTML.lines("kubectl config " + write.joined(separator: " ")))</pre>\n"
    }
  }

  /// No character that could end a line, a value or a quotation of a configuration.
  static func isPlain(_ text: String) -> Bool {
    text.utf8.allSatisfy { (0x21...0x7E).contains($0) && !"\"'`\\<>{}|;$#()".utf8.contains($0) }
  }

  private struct Missing: Error {
    var what: String
    var step: String
  }

  /// At the resource that the provider names, else at the usual path; nil: the HTTP listener is off.
  func mcpURL(_ account: AccountView) async -> String? {
    for path in ["", "/mcp"] {
      if case .success(let url) = await forwardURL(account, path) { return url }
    }
    return nil
  }

  private func forwardURL(_ account: AccountView, _ path: String) async -> Result<String, Missing> {
    guard case .success(let status) = await call(BrokerStatus.self, NoParams()),
      let listener = (status.listeners ?? []).first(where: {
        $0.setting.hasPrefix("[http]") && $0.address.contains(":")
      })
    else {
      return .failure(
        Missing(
          what: "the HTTP listener of grantd is off",
          step: "`grantctl configure claude-code \(account.account) --write` turns it on."))
    }
    var own = path.isEmpty ? nil : path.hasPrefix("/") ? path : "/" + path
    if own == nil, case .success(let provider) = await call(ProviderGet.self, .init(provider: account.provider)) {
      own = provider.forward_path
    }
    guard let own else {
      return .failure(
        Missing(what: "the provider names no resource", step: "Enter the path at its API above, such as /mcp."))
    }
    return .success("http://\(listener.address)/forward/\(account.account)\(own)")
  }
}

extension Optional {
  fileprivate func asyncMap<Result>(_ transform: (Wrapped) async -> Result) async -> Result? {
    if let self { await transform(self) } else { nil }
  }
}
