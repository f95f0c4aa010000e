import BrokerAPI

// Clients of the Model Context Protocol: each gets the URL of the forward endpoint, or the command of the bridge; no header
// and no token.
extension Tool {
  static let mcpClients = [claudeCode, codex, gemini, cursor, vscode, zed, mcp]

  /// One member of a client's JSON file, with the account's name.
  ///
  /// - Parameters:
  ///   - entry: the value for a URL.
  ///   - type: the client's word for the transport by standard input and output; nil: it needs none.
  private static func json(
    _ name: String, _ file: String, _ members: String, type: String? = nil, note: String,
    _ entry: @escaping @Sendable (JSON) -> JSON
  ) -> Tool {
    Tool(name: name, need: .forward) { target in
      let value = target.bridge.map { stdio($0, type: type) } ?? entry(.string(target.address))
      return ToolConfiguration(
        edits: [.json(file: file, JSONMember(path: [members, target.registry], value: value))], notes: [note])
    }
  }

  private static func stdio(_ words: [String], type: String?) -> JSON {
    let command: [JSON.Member] = [
      .init(name: "command", value: .string(words.first ?? "")),
      .init(name: "args", value: .array(words.dropFirst().map { .string($0) })),
    ]
    return .object((type.map { [.init(name: "type", value: .string($0))] } ?? []) + command)
  }

  static let claudeCode = json(
    "claude-code", "$HOME/.claude.json", "mcpServers", type: "stdio",
    note: "For one project: the same member in its .mcp.json. Claude Code reads it at its start."
  ) { ["type": "http", "url": $0] }

  static let gemini = json(
    "gemini", "$HOME/.gemini/settings.json", "mcpServers", note: "Gemini CLI reads it at its start."
  ) { ["httpUrl": $0] }

  static let cursor = json(
    "cursor", "$HOME/.cursor/mcp.json", "mcpServers", note: "For one project: the same member in its .cursor/mcp.json."
  ) { ["url": $0] }

  static let vscode = json(
    "vscode", "$CONFIG/Code/User/mcp.json", "servers", type: "stdio",
    note: "For one workspace: the same member in its .vscode/mcp.json."
  ) { ["type": "http", "url": $0] }

  static let zed = json(
    "zed", "$CONFIG/zed/settings.json", "context_servers", note: "Zed reads its settings at once."
  ) { ["url": $0] }

  static let codex = Tool(name: "codex", need: .forward) { target in
    let header = "[mcp_servers.\(target.registry)]"
    let lines =
      target.bridge.map { words in
        let arguments = words.dropFirst().map(ToolTarget.quoted).joined(separator: ", ")
        return [header, "command = \(ToolTarget.quoted(words.first ?? ""))", "args = [\(arguments)]"]
      } ?? [header, "url = \(ToolTarget.quoted(target.address))"]
    return ToolConfiguration(
      edits: [target.edit("codex", "$HOME/.codex/config.toml", lines, conflicts: [.start(header)])],
      notes: ["Codex reads it at its start."])
  }

  static let mcp = Tool(name: "mcp", need: .forward) { target in
    ToolConfiguration(
      notes: target.bridge.map {
        ["The command for any client, with the transport “stdio”:", $0.joined(separator: " ")]
      }
        ?? [
          "The URL for any client, with the transport “streamable HTTP”, no header and no token:", target.address,
          "For a client that takes only a command: add --stdio.",
        ])
  }
}
