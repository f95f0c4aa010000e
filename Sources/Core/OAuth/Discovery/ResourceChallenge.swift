/// The challenge of a protected resource (RFC 6750 §3, RFC 9449 §7.1, RFC 9728 §5.1, RFC 9470 §3).
public struct ResourceChallenge: Sendable, Equatable {
  /// The URL of the resource's metadata.
  public var metadata: String?
  /// Nil: the challenge names none.
  public var scopes: [String]?
  public var error: String?
  /// RFC 9470 §3.
  public var acrValues: [String] = []
  public var maxAge: Int64?

  /// The maximum number of scopes of a challenge.
  private static let mostScopes = 64

  /// Nil: the response has no such challenge.
  public init?(_ response: HTTPResponse) throws(ChallengeError) {
    let challenges = response.challenges.filter { ["bearer", "dpop"].contains($0.scheme) }
    guard let challenge = challenges.first(where: { $0.parameters["resource_metadata"] != nil }) ?? challenges.first
    else { return nil }
    let parameters = challenge.parameters
    for name in ["resource_metadata", "scope", "error"] {
      let value = parameters[name] ?? ""
      guard value.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
        throw ChallengeError(parameter: name, value: value.printable(limit: 200))
      }
    }
    metadata = parameters["resource_metadata"]
    if let scope = parameters["scope"] {
      let words = scope.split(separator: " ").map(String.init)
      guard words.count <= Self.mostScopes, words.allSatisfy(Self.isScope) else {
        throw ChallengeError(parameter: "scope", value: scope.printable(limit: 200))
      }
      scopes = words
    }
    error = parameters["error"]
    acrValues = (parameters["acr_values"] ?? "").split(separator: " ").map(String.init).filter(Self.isScope)
    maxAge = parameters["max_age"].flatMap { Int64($0) }.flatMap { $0 >= 0 ? $0 : nil }
  }

  /// Whether the text is a scope-token (RFC 6749 §3.3).
  static func isScope(_ text: String) -> Bool {
    (1...256).contains(text.utf8.count)
      && text.utf8.allSatisfy { $0 == 0x21 || (0x23...0x5B).contains($0) || (0x5D...0x7E).contains($0) }
  }
}

/// A parameter of a challenge has characters that are not allowed.
public struct ChallengeError: Error, Sendable, Equatable, CustomStringConvertible {
  public var parameter: String
  /// Printable.
  public var value: String

  public var description: String { "has an unusable `\(parameter)` in WWW-Authenticate: “\(value)”" }
}
