import BrokerAPI

/// A `[provider.NAME]` section for the configuration, as text.
struct ProviderSectionText {
  /// The order of the keys; others follow by name.
  private static let order = [
    "profile", "kind", "issuer", "client_id", "token_endpoint_auth_method", "client_secret_file", "scopes",
  ]

  let lines: [String]

  /// Nil: the provider is not one of the broker's store.
  ///
  /// - Parameter folder: of the files that the section names.
  init?(_ result: ProviderGet.Result, folder: String) {
    guard let section = result.section else { return nil }
    var keys = section
    let files = result.section_files ?? []
    for key in files {
      keys[key] = .string("\(folder)/\(result.provider.provider).\(key == "tls_ca_file" ? "pem" : "secret")")
    }
    let notes = files.map { "# \($0): write the file yourself, with mode 0600; its content is not printed." }
    let base = result.section_base.map {
      ["# Add the other keys of [provider.\(Self.key($0))], such as its issuer, client_id and client_secret_file."]
    }
    lines = notes + (base ?? []) + Self.lines(result.provider.provider, keys)
  }

  static func lines(_ name: String, _ keys: [String: JSON]) -> [String] {
    let names = keys.keys.sorted { (rank($0), $0) < (rank($1), $1) }
    return ["[provider.\(key(name))]"] + names.map { "\($0) = \(TOMLText.value(keys[$0] ?? .null))" }
  }

  private static func rank(_ key: String) -> Int { order.firstIndex(of: key) ?? order.count }

  /// A bare key, or a quoted one (TOML 1.0).
  private static func key(_ name: String) -> String {
    let isBare = name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
        true
      default: false
      }
    }
    return isBare && !name.isEmpty ? name : TOMLText.quoted(name)
  }
}

/// Values of TOML 1.0 as text.
enum TOMLText {
  static func value(_ json: JSON) -> String {
    if let text = json.string { return quoted(text) }
    if let items = json.array { return "[" + items.map(value).joined(separator: ", ") + "]" }
    return Shell.line(json)
  }

  /// A basic string: control characters are escaped, so that no text ends it.
  static func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": result += "\\\(scalar)"
      case "\n": result += "\\n"
      case "\t": result += "\\t"
      case _ where scalar.value < 0x20 || scalar.value == 0x7F:
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }
}
