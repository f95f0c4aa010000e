/// An authentication challenge (RFC 9110 §11.6.1).
struct Challenge: Equatable {
  /// In lower case.
  var scheme: String
  /// By name in lower case, the first of each name.
  var parameters: [String: String]
}

extension HTTPResponse {
  /// The maximum total length of `WWW-Authenticate`, in bytes.
  private static let longestChallenges = 8 << 10

  /// The challenges of all `WWW-Authenticate` headers; none if they are too long or malformed.
  var challenges: [Challenge] {
    let text = headers.filter { $0.name.lowercased() == "www-authenticate" }.map(\.value).joined(separator: ", ")
    guard text.utf8.count <= Self.longestChallenges else { return [] }
    var reader = ChallengeReader(rest: Array(text.utf8)[...])
    return reader.all()
  }
}

private struct ChallengeReader {
  var rest: ArraySlice<UInt8>

  mutating func all() -> [Challenge] {
    var found: [Challenge] = []
    skip(", \t")
    while let word = token() {
      skip(" \t")
      if consume("=") {
        // A parameter belongs to the scheme before it; "token68" is ignored.
        guard !found.isEmpty, let value = value() else { return found }
        let name = word.lowercased()
        if found[found.count - 1].parameters[name] == nil { found[found.count - 1].parameters[name] = value }
      } else {
        found.append(Challenge(scheme: word.lowercased(), parameters: [:]))
      }
      skip(", \t")
    }
    return found
  }

  private mutating func skip(_ characters: String) {
    let set = Array(characters.utf8)
    rest = rest.drop { set.contains($0) }
  }

  private mutating func consume(_ character: Unicode.Scalar) -> Bool {
    guard rest.first == UInt8(ascii: character) else { return false }
    rest = rest.dropFirst()
    return true
  }

  private mutating func token() -> String? {
    let word = rest.prefix {
      (0x30...0x39).contains($0) || (0x41...0x5a).contains($0) || (0x61...0x7a).contains($0)
        || "!#$%&'*+-.^_`|~/".utf8.contains($0)
    }
    rest = rest[word.endIndex...]
    return word.isEmpty ? nil : String(decoding: word, as: UTF8.self)
  }

  private mutating func value() -> String? {
    skip(" \t=")
    guard consume("\"") else { return token() ?? "" }
    var content: [UInt8] = []
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "\""): return String(validating: content, as: UTF8.self)
      case UInt8(ascii: "\\"):
        guard let next = rest.popFirst() else { return nil }
        content.append(next)
      default: content.append(byte)
      }
    }
    return nil
  }
}
