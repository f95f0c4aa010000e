/// The names of this machine's users, for texts that have their numbers.
struct UserNames: Sendable {
  /// Nil: no user has this number.
  var name: @Sendable (UInt32) -> String? = { _ in nil }

  /// The name of a group.
  var group: @Sendable (UInt32) -> String? = { _ in nil }

  /// `svc3`, or `uid 992` if no user has the number.
  func callAsFunction(_ uid: UInt32) -> String { name(uid) ?? "uid \(uid)" }

  /// The text with `user svc3` for `uid 992`. Options and settings, such as `--uid 992`, stay.
  func named(_ text: String) -> String {
    var result = ""
    var rest = text[...]
    while let found = rest.firstRange(of: "uid ") {
      let before = rest[..<found.lowerBound]
      let digits = rest[found.upperBound...].prefix { $0.isASCII && $0.isNumber }
      result += before
      if before.last.map({ !$0.isLetter && !$0.isNumber && !"-_".contains($0) }) ?? true, let uid = UInt32(digits),
        let name = name(uid)
      {
        result += "user \(name)"
      } else {
        result += "uid \(digits)"
      }
      rest = rest[digits.endIndex...]
    }
    return result + rest
  }
}
