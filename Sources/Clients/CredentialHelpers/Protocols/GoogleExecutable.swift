import BrokerAPI

/// Google's executable-sourced credentials (workload identity federation): the token goes to Google's STS, which wants a
/// JWT.
public struct GoogleExecutable: CredentialProtocol {
  public static let name = "gcp"
  public static let takesIDTokens = true
  public static let findsIssuers = false

  static let sts = "https://sts.googleapis.com"
  private static let jwt = "urn:ietf:params:oauth:token-type:jwt"
  private static let idToken = "urn:ietf:params:oauth:token-type:id_token"

  public let request: Request
  private let tokenType: String

  public static func input(_ invocation: Invocation) -> InputShape { .none }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    tokenType = invocation.environment["GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE"] ?? Self.jwt
    guard [Self.jwt, Self.idToken].contains(tokenType) else {
      throw Malformed("subject_token_type \(tokenType) is not possible here: write \(Self.jwt)")
    }
    request = .token(HelperTokenRequest(place: ServerLocation(Self.sts), account: invocation.account))
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    guard JWTText.isJWT(token.text) else { throw Malformed(JWTText.wanted("Google's STS")) }
    var answer: [JSON.Member] = [
      .init(name: "version", value: 1), .init(name: "success", value: true),
      .init(name: "token_type", value: .string(tokenType)), .init(name: "id_token", value: .string(token.text)),
    ]
    if let end = token.expiresAt { answer.append(.init(name: "expiration_time", value: .integer(end))) }
    return Reply(out: JSON.object(answer).serialized() + [0x0A])
  }

  public static func notFound(_ invocation: Invocation) -> Reply {
    refusal(
      Problem("which account? Write --account NAME behind `helper gcp` in the command of the configuration"), invocation
    )
  }

  /// The library joins both outputs, so nothing goes to standard error.
  public static func refusal(_ problem: Problem, _ invocation: Invocation) -> Reply {
    let answer: JSON = [
      "version": 1, "success": false, "code": "grantd", "message": .string(problem.line),
    ]
    return Reply(out: answer.serialized() + [0x0A])
  }
}

/// RFC 7519 §3: three parts of base64url.
enum JWTText {
  static func isJWT(_ text: String) -> Bool {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 3 && parts[0].hasPrefix("eyJ") && parts.allSatisfy { !$0.isEmpty }
  }

  static func wanted(_ server: String) -> String {
    "\(server) takes a JWT, and the provider's access token is none: use --id-token, or an account "
      + "whose access tokens are JWTs"
  }
}
