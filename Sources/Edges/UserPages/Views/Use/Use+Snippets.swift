import BrokerAPI
import Pages

/// Snippets for the user's own programs.
extension Ask {
  func snippets(_ view: AccountView) async -> HTML {
    let account = view.account
    let word = Self.isPlain(account) ? account : "'\(account)'"
    let texts: [(name: HTML, text: String)] = [
      ("Shell", "curl -H \"Authorization: Bearer $(grantctl token \(word))\" \\\n  https://api.example.com/"),
      (
        "Python",
        """
        import subprocess

        command = ["grantctl", "token", "\(account)"]
        output = subprocess.check_output(command, text=True)
        token = output.strip()
        """
      ),
      (
        "Go",
        """
        command := exec.Command("grantctl", "token", "\(account)")
        out, err := command.Output()
        token := strings.TrimSpace(string(out))
        """
      ), ("A program with a variable", "grantctl exec \(word) --env ACCESS_TOKEN -- PROGRAM"),
      ("An MCP client", await server(view)),
    ]
    var html: HTML = ""
    for snippet in texts {
      html +=
        "<div class=\"panel\"><h3>\(snippet.name)</h3><pre tabindex=\"0\">\(HTML.lines(snippet.text))</pre></div>\n"
    }
    return html
  }

  /// The URL at the HTTP listener; if that is off, the command that does the same.
  private func server(_ account: AccountView) async -> String {
    let server: JSON
    if let url = await mcpURL(account) {
      server = ["type": "http", "url": .string(url)]
    } else {
      server = ["command": "grantctl", "args": ["mcp", .string(account.account)]]
    }
    return JSON.object(["mcpServers": .object([account.account: server])]).pretty(width: 40)
  }
}
