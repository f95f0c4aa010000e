/// A request to a provider's API, as rules see it.
public struct APIRequest: Sendable, Hashable {
  public var method: String
  /// With the port where it is not the scheme's own, in lower case: `api.example.com`, `127.0.0.1:8080`.
  public var host: String
  /// As it is sent, without the query.
  public var path: String

  public init(method: String, host: String, path: String) {
    self.method = method
    self.host = host
    self.path = path
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
      && wildcard(path, matches: request.path) && Self.isPlain(request.path)
  }

  /// Whether every server reads the path as it stands here: one with steps upwards or control characters, however often they
  /// are encoded, could be another path to who answers it.
  static func isPlain(_ path: String) -> Bool {
    var bytes = Array(path.utf8)
    for _ in 0..<4 {
      guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }), hasNoSteps(bytes) else { return false }
      let decoded = unescaped(bytes)
      if decoded == bytes { return true }
      bytes = decoded
    }
    return false
  }

  private static func hasNoSteps(_ path: [UInt8]) -> Bool {
    let separators: Set<UInt8> = [UInt8(ascii: "/"), UInt8(ascii: "\\")]
    let steps = path.dropFirst().split(omittingEmptySubsequences: false, whereSeparator: separators.contains)
    return steps.enumerated().allSatisfy { index, step in
      // What comes behind a semicolon are parameters to some. Only the last may be empty.
      let name = Array(step.prefix { $0 != UInt8(ascii: ";") })
      return name != Array(".".utf8) && name != Array("..".utf8) && (!step.isEmpty || index == steps.count - 1)
    }
  }

  private static func unescaped(_ text: [UInt8]) -> [UInt8] {
    func digit(_ byte: UInt8) -> UInt8? { Character(UnicodeScalar(byte)).hexDigitValue.map(UInt8.init) }
    var result: [UInt8] = []
    var index = 0
    while index < text.count {
      if text[index] == UInt8(ascii: "%"), index + 2 < text.count, let high = digit(text[index + 1]),
        let low = digit(text[index + 2])
      {
        result.append(high << 4 | low)
        index += 3
      } else {
        result.append(text[index])
        index += 1
      }
    }
    return result
  }
}
