/// The people this server knows: alice, bob and user-N.
struct User: Sendable, Hashable {
  let name: String

  /// Nil for anybody else. An address at the demo's domain names its user too.
  init?(hint: String) {
    let domain = "@\(Self.domain)"
    let name = hint.hasSuffix(domain) ? String(hint.dropLast(domain.count)) : hint
    let digits = name.dropFirst("user-".count)
    let numbered =
      name.hasPrefix("user-") && (1...9).contains(digits.count) && digits.utf8.allSatisfy { (48...57).contains($0) }
    guard name == "alice" || name == "bob" || numbered else { return nil }
    self.name = name
  }

  private static let domain = "demo.example"

  /// Unlike the name, so that a client that mixes them up is noticed.
  var subject: String { "sub-\(name)" }
  var email: String { "\(name)@\(Self.domain)" }

  var fullName: String {
    switch name {
    case "alice": "Alice Example"
    case "bob": "Bob Example"
    default: "User \(name.dropFirst("user-".count))"
    }
  }

  /// The claims that these scopes open (OIDC Core §5.4).
  func claims(for scopes: [String]) -> [String: DemoServer.JSON] {
    var claims: [String: DemoServer.JSON] = ["sub": .string(subject)]
    if scopes.contains("profile") {
      claims["name"] = .string(fullName)
      claims["preferred_username"] = .string(name)
    }
    if scopes.contains("email") {
      claims["email"] = .string(email)
      claims["email_verified"] = true
    }
    return claims
  }
}
