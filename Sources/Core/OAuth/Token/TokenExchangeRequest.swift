/// The parameters of a token exchange (RFC 8693 §2.1). It prints nothing.
public struct TokenExchangeRequest: Sendable, Hashable {
  public static let grantType = "urn:ietf:params:oauth:grant-type:token-exchange"

  /// A token type (RFC 8693 §3). An open set.
  public struct TokenType: RawRepresentable, Hashable, Sendable, Codable {
    public let rawValue: String

    public init(rawValue: String) {
      self.rawValue = rawValue
    }

    public static let accessToken = Self(rawValue: "urn:ietf:params:oauth:token-type:access_token")
    public static let refreshToken = Self(rawValue: "urn:ietf:params:oauth:token-type:refresh_token")
    public static let idToken = Self(rawValue: "urn:ietf:params:oauth:token-type:id_token")
  }

  public let subjectToken: Secret
  public let subjectTokenType: TokenType
  public let actorToken: Secret?
  public let actorTokenType: TokenType?
  public let requestedTokenType: TokenType?
  /// Logical names of the services that will accept the token.
  public let audiences: [String]
  /// Absolute URIs of these services, without a fragment (RFC 8707 §2).
  public let resources: [String]
  public let scopes: [String]

  /// - Throws: if an actor token has no type, a type has no actor token, or a resource is not an absolute URI.
  public init(
    subjectToken: Secret, subjectTokenType: TokenType = .accessToken, actorToken: Secret? = nil,
    actorTokenType: TokenType? = nil, requestedTokenType: TokenType? = nil, audiences: [String] = [],
    resources: [String] = [], scopes: [String] = []
  ) throws(TokenExchangeRequestError) {
    guard !subjectToken.isEmpty, !subjectTokenType.rawValue.isEmpty else { throw .noSubjectToken }
    guard actorTokenType?.rawValue.isEmpty ?? true || actorToken != nil else { throw .typeWithoutActorToken }
    guard actorToken == nil || actorTokenType.map({ !$0.rawValue.isEmpty }) ?? false else {
      throw .actorTokenWithoutType
    }
    for resource in resources where !ResourceIndicator.isValid(resource) {
      throw .invalidResource(resource.printable(limit: 512))
    }
    self.subjectToken = subjectToken
    self.subjectTokenType = subjectTokenType
    self.actorToken = actorToken
    self.actorTokenType = actorTokenType
    self.requestedTokenType = requestedTokenType
    self.audiences = audiences
    self.resources = resources
    self.scopes = scopes
  }

  // The tokens are exposed to be sent.
  func parameters(scopeSeparator: String) -> [Parameter] {
    var result = [
      Parameter("subject_token", subjectToken.exposed), Parameter("subject_token_type", subjectTokenType.rawValue),
    ]
    if let actorToken, let actorTokenType {
      result += [
        Parameter("actor_token", actorToken.exposed), Parameter("actor_token_type", actorTokenType.rawValue),
      ]
    }
    if let requestedTokenType { result.append(Parameter("requested_token_type", requestedTokenType.rawValue)) }
    result += audiences.map { Parameter("audience", $0) }
    if !scopes.isEmpty { result.append(Parameter("scope", scopes.joined(separator: scopeSeparator))) }
    return result
  }
}

extension TokenExchangeRequest: Redacted {
  public var description: String { "token exchange request" }
}

public enum TokenExchangeRequestError: Error, Sendable, Equatable, CustomStringConvertible {
  case noSubjectToken
  case actorTokenWithoutType
  case typeWithoutActorToken
  case invalidResource(String)

  public var description: String {
    switch self {
    case .noSubjectToken: "a token exchange needs a subject token and its type (RFC 8693 §2.1)"
    case .actorTokenWithoutType: "an actor token needs actor_token_type (RFC 8693 §2.1)"
    case .typeWithoutActorToken: "actor_token_type is given without an actor token (RFC 8693 §2.1)"
    case .invalidResource(let text):
      "the resource “\(text)” is not an absolute URI without a fragment (RFC 8693 §2.1, RFC 8707 §2)"
    }
  }
}
