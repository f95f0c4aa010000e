import OAuth

/// A request to a provider's API, as rules see it.
public struct APIRequest: Sendable, Hashable {
  public var method: String
  /// With the port where it is not the scheme's own, in lower case: `api.example.com`, `127.0.0.1:8080`.
  public var host: String
  /// As it is sent, without the query.
  public var path: String
  /// Its messages, if a rule has to know them; nil: they were not read.
  public var content: MCPContent?

  public init(method: String, host: String, path: String) {
    self.method = method
    self.host = host
    self.path = path
  }

  /// For people: ` (tools/call add)`, never with arguments; empty: unknown.
  var words: String {
    switch content {
    case nil, .session: ""
    case .calls(let calls): " (\(Self.list(calls)))"
    case .unclear(let reason): " (\(reason))"
    }
  }

  /// The calls for the audit trail.
  var callNames: String? { if case .calls(let calls) = content { Self.list(calls) } else { nil } }

  private static func list(_ calls: [MCPCall]) -> String {
    let shown = calls.prefix(8).map { $0.description.printable(limit: 128) }.joined(separator: ", ")
    return calls.count > 8 ? "\(shown), and \(calls.count - 8) more" : shown
  }
}

/// Which requests a rule allows: `GET /repos/*`, `* api.example.com/v1/*`. A `*` stands for any run of characters.
public struct RequestPattern: Sendable, Hashable, CustomStringConvertible {
  /// In capitals; `*`: any.
  public var method: String
  /// Nil: any of the account's.
  public var host: String?
  /// It begins with a slash, or is `*`.
  public var path: String

  /// - Parameter text: a method and a path, or a method, a host and a path.
  public init?(_ text: String) {
    let words = text.split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 2, !words[1].isEmpty else { return nil }
    method = words[0].uppercased()
    guard method == "*" || !method.isEmpty && method.utf8.allSatisfy({ (0x41...0x5A).contains($0) || $0 == 0x2D })
    else {
      return nil
    }
    if words[1].hasPrefix("/") || words[1] == "*" {
      path = String(words[1])
    } else {
      guard let slash = words[1].firstIndex(of: "/"), !words[1][..<slash].contains("*") else { return nil }
      host = words[1][..<slash].lowercased()
      path = String(words[1][slash...])
    }
    guard path.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "?") }) else { return nil }
  }

  public var description: String { "\(method) \(host ?? "")\(path)" }

  func matches(_ request: APIRequest) -> Bool {
    (method == "*" || method == request.method.uppercased()) && (host == nil || host == request.host)
      && wildcard(path, matches: request.path) && PlainPath.isPlain(request.path)
  }
}
