import OAuth

/// The parameters of a query or a form.
struct Fields: Sendable, Equatable {
  /// The most that a form may have, in bytes.
  static let longestForm = 16 << 10
  static let most = 32

  private var values: [String: String] = [:]

  init() {}

  /// Nil: it is not `application/x-www-form-urlencoded`, or has a parameter twice.
  init?(_ text: some StringProtocol) {
    guard let parameters = FormEncoding.decode(text), parameters.count <= Self.most else { return nil }
    for parameter in parameters {
      guard values.updateValue(parameter.value, forKey: parameter.name) == nil else { return nil }
    }
  }

  /// Nil: absent or empty.
  subscript(name: String) -> String? {
    let value = values[name]?.trimmingSpaces ?? ""
    return value.isEmpty ? nil : value
  }
}

extension String {
  var trimmingSpaces: String {
    let spaces: Set<Character> = [" ", "\t", "\n", "\r", "\r\n"]
    let start = drop { spaces.contains($0) }
    return String(start.prefix(start.count - (start.reversed().prefix { spaces.contains($0) }.count)))
  }
}
