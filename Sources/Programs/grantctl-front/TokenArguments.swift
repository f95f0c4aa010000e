import BrokerSocket

/// The arguments of `grantctl token` that the front understands, with the meaning that the full program's parser gives
/// them. A test compares.
struct TokenArguments {
  private static let longestTimeout: Int64 = 86_400

  private(set) var account = ""
  private(set) var wish = SocketChoice.Wish()
  private(set) var isHeader = false
  private var scopes: [String] = []
  private var resource: String?
  private var minTTL: Int64?
  private var timeout: Int64?

  /// Nil where there is anything else.
  init?(_ arguments: [String]) {
    var words: [String] = []
    var index = 0
    while index < arguments.count {
      let argument = arguments[index]
      index += 1
      guard argument.utf8.first == UInt8(ascii: "-") else {
        words.append(argument)
        continue
      }
      let (name, attached) = Self.halves(argument)
      // Only options of every command may precede the command.
      guard !words.isEmpty || name == "--system" || name == "--user" || name == "--socket" || name == "--timeout" else {
        return nil
      }
      if name == "--system" || name == "--user" || name == "--as-header" {
        guard attached == nil, set(name) else { return nil }
        continue
      }
      var value = attached
      if value == nil, index < arguments.count {
        value = arguments[index]
        index += 1
      }
      guard let value, Plain.isText(value), value.utf8.first != UInt8(ascii: "-"), set(name, value) else { return nil }
    }
    guard words.count == 2, words[0] == "token", Plain.isAccount(words[1]) else { return nil }
    guard !(wish.isSystem && wish.isUser), wish.socket == nil || !(wish.isSystem || wish.isUser) else { return nil }
    account = words[1]
  }

  /// An option, and the text after its first `=`.
  private static func halves(_ argument: String) -> (name: String, value: String?) {
    guard let equals = argument.utf8.firstIndex(of: UInt8(ascii: "=")) else { return (argument, nil) }
    return (String(argument[..<equals]), String(argument[argument.utf8.index(after: equals)...]))
  }

  /// False for a duplicate flag.
  private mutating func set(_ flag: String) -> Bool {
    switch flag {
    case "--system":
      defer { wish.isSystem = true }
      return !wish.isSystem
    case "--user":
      defer { wish.isUser = true }
      return !wish.isUser
    default:
      defer { isHeader = true }
      return !isHeader
    }
  }

  /// False for an unknown option, an invalid value, or a duplicate.
  private mutating func set(_ option: String, _ value: String) -> Bool {
    switch option {
    case "--socket":
      defer { wish.socket = value }
      return wish.socket == nil
    case "--resource":
      defer { resource = value }
      return resource == nil
    case "--min-ttl":
      defer { minTTL = Plain.seconds(value) }
      return minTTL == nil && Plain.seconds(value) != nil
    case "--timeout":
      guard let seconds = Plain.seconds(value), seconds > 0, seconds <= Self.longestTimeout else { return false }
      defer { timeout = seconds }
      return timeout == nil
    case "--scope": return addScopes(value)
    default: return false
    }
  }

  /// Words between spaces; false if there are none.
  private mutating func addScopes(_ text: String) -> Bool {
    let before = scopes.count
    var word = ""
    for scalar in text.unicodeScalars {
      if scalar != " " {
        word.unicodeScalars.append(scalar)
      } else if !word.isEmpty {
        scopes.append(word)
        word = ""
      }
    }
    if !word.isEmpty { scopes.append(word) }
    return scopes.count > before
  }

  /// The request, with its newline. The members are in the order of the full program's.
  var line: [UInt8] {
    var line = #"{"jsonrpc":"2.0","id":\#(LeftConnection.requestID),"method":"token.get","params":{"account":"#
    line += Self.quoted(account)
    if !scopes.isEmpty {
      line += #","scopes":["#
      for index in scopes.indices { line += (index > 0 ? "," : "") + Self.quoted(scopes[index]) }
      line += "]"
    }
    if let resource { line += #","resource":"# + Self.quoted(resource) }
    if let minTTL { line += #","min_ttl":\#(minTTL)"# }
    if let timeout { line += #","timeout":\#(timeout)"# }
    return Array((line + "}}\n").utf8)
  }

  /// JSON text of printable ASCII (RFC 8259 §7).
  private static func quoted(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
      if scalar == "\"" || scalar == "\\" { quoted += "\\" }
      quoted.unicodeScalars.append(scalar)
    }
    return quoted + "\""
  }
}
