import BrokerAPI

// Clients of the Model Context Protocol: each gets the URL of the forward endpoint, no header and no token.
extension Tool {
  static let mcpClients = [claudeCode, codex, gemini, cursor, vscode, zed, mcp]

  /// One member of a client's JSON file, with the account's name.
  private static func json(
    _ name: String, _ file: String, _ members: String, note: String, _ entry: @escaping @Sendable (JSON) -> JSON
  ) -> Tool {
    Tool(name: name, need: .forward) { target in
      ToolConfiguration(
        edits: [
          .json(file: file, JSONMember(path: [members, target.registry], value: entry(.string(target.address))))
        ], notes: [note])
    }
  }

  static let claudeCode = json(
    "claude-code", "$HOME/.claude.json", "mcpServers",
    note: "For one project: the same member in its .mcp.json. Claude Code reads it at its start."
  ) { ["type": "http", "url": $0] }

  static let gemini = json(
    "gemini", "$HOME/.gemini/settings.json", "mcpServers", note: "Gemini CLI reads it at its start."
  ) { ["httpUrl": $0] }

  static let cursor = json(
    "cursor", "$HOME/.cursor/mcp.json", "mcpServers", note: "For one project: the same member in its .cursor/mcp.json."
  ) { ["url": $0] }

  static let vscode = json(
    "vscode", "$CONFIG/Code/User/mcp.json", "servers",
    note: "For one workspace: the same member in its .vscode/mcp.json."
  ) { ["type": "http", "url": $0] }

  static let zed = json(
    "zed", "$CONFIG/zed/settings.json", "context_servers", note: "Zed reads its settings at once."
  ) { ["url": $0] }

  static let codex = Tool(name: "codex", need: .forward) { target in
    let header = "[mcp_servers.\(target.registry)]"
    let lines = [header, "url = \(ToolTarget.quoted(target.address))"]
    return ToolConfiguration(
      edits: [
        .text(
          TextEdit("$HOME/.codex/config.toml", target.block("codex", lines), conflicts: [.start(header)]))
      ], notes: ["Codex reads it at its start."])
  }

  static let mcp = Tool(name: "mcp", need: .forward) { target in
    ToolConfiguration(
      edits: [],
      notes: ["The URL for any client, with the transport “streamable HTTP”, no header and no token:", target.address])
  }
}
