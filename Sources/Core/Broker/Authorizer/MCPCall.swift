import BrokerAPI

/// One message of the Model Context Protocol in a request, as rules see it: never its arguments.
public struct MCPCall: Sendable, Hashable, CustomStringConvertible {
  /// Nil: the client's answer to a request of the server.
  public var method: String?
  /// The name of the tool or prompt, or the URI of the resource.
  public var name: String?

  /// Messages without which there is no session. Each rule for MCP allows them, and answers.
  private static let ofEachSession: Set = [
    "initialize", "ping", "server/discover", "notifications/initialized", "notifications/cancelled",
    "notifications/progress", "notifications/roots/list_changed",
  ]
  /// The member of `params` that names what a method is about.
  static let naming = [
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri", "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
  ]

  var isOfEachSession: Bool { method.map(Self.ofEachSession.contains) ?? true }

  public var description: String { [method ?? "response", name].compactMap(\.self).joined(separator: " ") }
}

/// Which calls a rule allows: `tools/list`, `tools/call:search_*`. A `*` stands for any run of characters.
public struct MCPPattern: Sendable, Hashable, CustomStringConvertible {
  public var method: String
  /// Nil: any.
  public var name: String?

  public init?(_ text: String) {
    let words = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    guard let first = words.first, !first.isEmpty, text.utf8.count <= 256,
      text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
    else { return nil }
    method = first
    if words.count > 1 {
      // Other methods name nothing.
      guard MCPCall.naming[first] != nil, !words[1].isEmpty else { return nil }
      name = words[1]
    }
  }

  public var description: String { name.map { "\(method):\($0)" } ?? method }

  func matches(_ call: MCPCall) -> Bool {
    guard let own = call.method, wildcard(method, matches: own) else { return false }
    guard let name else { return true }
    return call.name.map { wildcard(name, matches: $0) } ?? false
  }
}

/// What a request says to an MCP server.
public enum MCPContent: Sendable, Hashable {
  /// No body: GET for the server's stream, or DELETE at the end of the session.
  case session
  case calls([MCPCall])
  /// Two servers could read it as different messages, or it is none.
  case unclear(String)

  /// Bytes of a body that is read.
  static let longest = 1 << 20
  /// Messages of a batch.
  static let longestBatch = 64
  private static let longestName = 1024
  private static let members: Set = ["jsonrpc", "id", "method", "params", "result", "error"]

  /// - Parameters:
  ///   - headers: as they are sent; names in any case.
  ///   - body: all of it.
  public init(method: String, headers: [(name: String, value: String)], body: [UInt8]) {
    do throws(Unclear) {
      self = try Self.read(method, headers.map { (CallerHeaders.folded($0.name), $0.value) }, body)
    } catch {
      self = .unclear(error.reason)
    }
  }

  private struct Unclear: Error { var reason: String }

  private static func read(
    _ method: String, _ headers: [(name: String, value: String)], _ body: [UInt8]
  ) throws(Unclear) -> MCPContent {
    func values(_ name: String) -> [String] { headers.filter { $0.name == name }.map(\.value) }
    guard method == "POST" else {
      guard ["GET", "DELETE"].contains(method) else { throw Unclear(reason: "the method is \(method.prefix(32))") }
      guard body.isEmpty else { throw Unclear(reason: "\(method) has a body") }
      return .session
    }
    guard body.count <= longest else { throw Unclear(reason: "the body is longer than \(longest >> 20) MiB") }
    guard values("content-encoding").isEmpty else { throw Unclear(reason: "the body is encoded") }
    let types = values("content-type")
    guard types.count == 1, isJSON(types[0]) else {
      throw Unclear(reason: "Content-Type is not application/json in UTF-8")
    }
    let json: JSON
    do throws(JSONError) { json = try JSON.parse(body) } catch { throw Unclear(reason: "the body: \(error)") }
    let calls: [MCPCall]
    if let batch = json.array {
      guard (1...longestBatch).contains(batch.count) else {
        throw Unclear(reason: "a batch has 1 to \(longestBatch) messages")
      }
      var each: [MCPCall] = []
      for message in batch { each.append(try call(message)) }
      calls = each
    } else {
      calls = [try call(json)]
    }
    try checkMirrors(values, calls)
    return .calls(calls)
  }

  private static func isJSON(_ type: String) -> Bool {
    let parts = type.split(separator: ";", omittingEmptySubsequences: false).map {
      $0.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
    return parts[0] == "application/json"
      && (parts.count == 1 || parts.count == 2 && ["charset=utf-8", "charset=\"utf-8\""].contains(parts[1]))
  }

  /// JSON-RPC 2.0 §4, §5. The parser refuses a member twice. Parsers that ignore the case of members take the last one.
  private static func call(_ message: JSON) throws(Unclear) -> MCPCall {
    guard let members = message.members else { throw Unclear(reason: "a message is not an object") }
    guard members.allSatisfy({ Self.members.contains($0.name) }) else {
      throw Unclear(reason: "a message has members that are not of JSON-RPC 2.0")
    }
    guard message["jsonrpc"]?.string == "2.0" else { throw Unclear(reason: "a message is not of JSON-RPC 2.0") }
    guard let value = message["method"] else {
      guard message["params"] == nil, message["id"] != nil, (message["result"] == nil) != (message["error"] == nil)
      else {
        throw Unclear(reason: "a message has no method and is not an answer")
      }
      return MCPCall(method: nil, name: nil)
    }
    guard message["result"] == nil, message["error"] == nil, let method = value.string, isPlain(method) else {
      throw Unclear(reason: "a method is not a text of printable ASCII")
    }
    let params = message["params"]
    guard params == nil || params?.members != nil else { throw Unclear(reason: "params is not an object") }
    guard let naming = MCPCall.naming[method] else { return MCPCall(method: method, name: nil) }
    let lookalikes = (params?.members ?? []).filter { folded($0.name) == naming && $0.name != naming }
    guard lookalikes.isEmpty, let name = params?[naming]?.string, isPlain(name) else {
      throw Unclear(reason: "\(method) has no \(naming) of printable ASCII")
    }
    return MCPCall(method: method, name: name)
  }

  private static func isPlain(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= longestName && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
  }

  /// As parsers compare that ignore the case (Unicode simple folding: U+017F is s, U+212A is k), without characters that
  /// others drop.
  private static func folded(_ name: String) -> String {
    String(
      String.UnicodeScalarView(
        name.lowercased().replacing("\u{17F}", with: "s").replacing("\u{212A}", with: "k").unicodeScalars.filter {
          $0.value > 0x20 && $0.value != 0x7F && $0.value < 0x2000 && $0 != "_" && $0 != "-"
        }))
  }

  /// The headers `Mcp-Method` and `Mcp-Name`, by which proxies choose a server, are those of the body.
  private static func checkMirrors(_ values: (String) -> [String], _ calls: [MCPCall]) throws(Unclear) {
    let (methods, names) = (values("mcp-method"), values("mcp-name"))
    guard !methods.isEmpty || !names.isEmpty else { return }
    guard calls.count == 1, methods.count <= 1, names.count <= 1, methods.allSatisfy({ $0 == calls[0].method }),
      names.allSatisfy({ $0 == calls[0].name })
    else { throw Unclear(reason: "Mcp-Method or Mcp-Name differs from the body") }
  }
}
