/// A program's configuration that makes it use grantd.
public struct ToolConfiguration: Sendable, Equatable {
  public enum Edit: Sendable, Equatable {
    case text(TextEdit)
    case json(file: String, JSONMember)
    /// Arguments of `kubectl config`: to write, and to undo. The entry is in the file that has it already.
    case kubectl(entry: String, write: [String], undo: [String])
  }

  public var edits: [Edit] = []
  /// Further steps, as text for the user.
  public var notes: [String] = []
}

/// A block in a program's text file.
public struct TextEdit: Sendable, Equatable {
  public var file: String
  public var block: TextBlock
  /// Text that must not occur elsewhere in the file.
  public var conflicts: [TextBlock.Conflict] = []
  /// What to write into a file with such a line. Nil: the block.
  public var byHand: String?
  /// Nil: the block is for one server.
  public var shared: Shared?

  /// The block is for each server that has a block in another file, and is taken out with the last of these.
  public struct Shared: Sendable, Equatable {
    public var file: String
    public var tool: String
    /// The server to remove.
    public var label: String

    /// The block of another server.
    public func other(in text: String) -> String? {
      TextBlock.labels(in: text).first { $0.hasPrefix(tool + " ") && $0 != label }
    }
  }

  public init(
    _ file: String, _ block: TextBlock, conflicts: [TextBlock.Conflict] = [], byHand: String? = nil,
    shared: Shared? = nil
  ) {
    self.file = file
    self.block = block
    self.conflicts = conflicts
    self.byHand = byHand
    self.shared = shared
  }
}

/// The user's account and server.
public struct ToolTarget: Sendable, Equatable {
  public var account: String
  /// The server, or the address that the program is to use.
  public var place: ServerLocation?
  /// As it was given.
  public var address: String
  public var user: String
  public var role: String?
  /// The tool gets the ID token instead of the access token.
  public var isIDToken: Bool
  /// Options that reach the broker, each with a space before it.
  public var options: String
  /// The command that an MCP client starts, as a list; nil: the client uses the URL.
  public var bridge: [String]?
  /// The paths of the user's broker; nil: the system's broker is used.
  public var userBroker: UserBroker?

  public struct UserBroker: Sendable, Equatable {
    /// The path of grantd.toml.
    public var configuration: String
    /// The folder of token files.
    public var files: String

    public init(configuration: String, files: String) {
      self.configuration = configuration
      self.files = files
    }
  }

  public init(
    account: String, place: ServerLocation? = nil, address: String = "", user: String = "", role: String? = nil,
    isIDToken: Bool = false, options: String = ""
  ) {
    self.isIDToken = isIDToken
    self.account = account
    self.place = place
    self.address = address
    self.user = user
    self.role = role
    self.options = options
  }
}

public struct Tool: Sendable {
  public enum Need: Sendable {
    case nothing, host, address, role, mailServer
    /// The full resource name of a provider in a workload identity pool.
    case audience
    /// A role of Vault.
    case vaultRole
    /// The URL of the account's resource at the forward endpoint.
    case forward
  }

  public var name: String
  public var need: Need
  /// Whether it can use an ID token.
  public var takesIDTokens = false
  public var make: @Sendable (ToolTarget) -> ToolConfiguration

  public static func named(_ name: String) -> Tool? { all.first { $0.name == name } }
}

extension ToolTarget {
  var host: String { place?.name ?? "" }
  /// Below which the account is for the server; empty: everywhere.
  var path: String {
    let path = place?.path ?? ""
    return path.hasSuffix("/") ? String(path.dropLast()) : path
  }
  /// In a text between quotation marks.
  var accountWord: String {
    account.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "@._+-".contains($0)) } ? account : "'\(account)'"
  }
  var tokenCommand: String { "grantctl token \(accountWord)\(options)" }

  func helperCommand(_ name: String) -> String { "grantctl helper \(name)\(options)\(idTokenOption)" }

  /// With a space before it, or empty.
  var idTokenOption: String { isIDToken ? " --id-token" : "" }

  func label(_ tool: String) -> String { "\(tool) \(account)\(host.isEmpty ? "" : " \(host)")" }

  func block(_ tool: String, _ lines: [String], position: TextBlock.Position = .end) -> TextBlock {
    TextBlock(label: label(tool), text: lines.joined(separator: "\n"), position: position)
  }

  /// A tool's block in its text file.
  func edit(
    _ tool: String, _ file: String, _ lines: [String], conflicts: [TextBlock.Conflict]
  ) -> ToolConfiguration.Edit {
    .text(TextEdit(file, block(tool, lines), conflicts: conflicts))
  }

  private static let mapping = "$CONFIG/grantd/helper.toml"

  /// A program's common part for all servers, which are in helper.toml.
  func shared(_ tool: String, _ file: String, _ line: String, conflicts: [TextBlock.Conflict]) -> ToolConfiguration.Edit
  {
    .text(
      TextEdit(
        file, TextBlock(label: tool, text: line), conflicts: conflicts,
        shared: .init(file: Self.mapping, tool: tool, label: label(tool))))
  }

  /// The entry of helper.toml, for programs whose configuration cannot name the account.
  func entry(_ tool: String, _ keys: [String] = []) -> ToolConfiguration.Edit {
    var lines = ["[[host]]", "name = \(Self.quoted(host))", "account = \(Self.quoted(account))"] + keys
    // Another entry permits it, and this one has priority over it.
    if let place, place.scheme == "http", !place.host.isLoopback { lines.append("allow_insecure_http = true") }
    return .text(TextEdit(Self.mapping, block(tool, lines)))
  }

  /// Also for TOML and for configurations that have C's escapes.
  static func quoted(_ text: String) -> String {
    "\"" + text.map { $0 == "\"" || $0 == "\\" ? "\\\($0)" : String($0) }.joined() + "\""
  }
}
