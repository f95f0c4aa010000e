/// A refresh token in a response that replaces the one that was sent.
public struct RotatedToken: Sendable, Equatable {
  public var token: Secret
  /// Nil if the provider does not specify it.
  public var expiresIn: Duration?

  public init(token: Secret, expiresIn: Duration? = nil) {
    self.token = token
    self.expiresIn = expiresIn
  }
}

extension RotatedToken {
  /// From an accepted response.
  public init?(_ tokens: TokenResponse) {
    guard let token = tokens.refreshToken else { return nil }
    self.init(token: token, expiresIn: tokens.refreshTokenExpiresIn)
  }

  /// From a successful response that cannot be used: a provider that rotates accepts only this token. It is read from
  /// the configured path. If there is no access token at that path, it may be anywhere in the response, provided that
  /// it is the only one.
  public init?(unusable response: HTTPResponse, quirks: TokenResponseQuirks) {
    guard (200..<300).contains(response.status),
      var members = TokenResponse.members(of: response, quirks: quirks)?.members
    else { return nil }
    for name in quirks.path { members = members[name]?.dictionary ?? members }
    if case .string(let text) = members["refresh_token"], !text.isEmpty {
      self.init(token: Secret(text), expiresIn: TokenResponse.refreshTokenLifetime(members, quirks))
      return
    }
    // Next to an access token, another refresh token may belong to a different grant.
    if case .string(let text) = members["access_token"], !text.isEmpty { return nil }
    let all = Self.all(in: .object(members))
    guard all.count == 1, let text = all.first else { return nil }
    self.init(token: Secret(text))
  }

  /// The depth of JSON is bounded.
  private static func all(in value: JSON) -> Set<String> {
    switch value {
    case .object(let members):
      members.reduce(into: []) { found, member in
        if member.name == "refresh_token", case .string(let text) = member.value, !text.isEmpty { found.insert(text) }
        found.formUnion(all(in: member.value))
      }
    case .array(let values): values.reduce(into: []) { $0.formUnion(all(in: $1)) }
    case .null, .bool, .number, .string: []
    }
  }
}
