import BrokerAPI
import FoundationEssentials
import OAuth

/// A request to the token endpoint, as far as it matters here: which account is meant, and for what.
struct TokenForm: Equatable {
  /// The client id, or the refresh token, depending on the grant type. The kernel identifies the caller, so it is not
  /// secret.
  var handle: String
  /// Nil: the client did not say.
  var scopes: [String]?
  /// RFC 8707.
  var resource: String?
  /// RFC 8693 §2.1.
  var audience: String?
  /// The token that a token exchange asks for; nil: an access token, by another grant type.
  var exchangesFor: TokenKind?
}

/// An answer of the token endpoint that is none (RFC 6749 §5.2).
struct TokenRefusal: Error, Equatable {
  enum Code: String {
    case invalidRequest = "invalid_request"
    case invalidClient = "invalid_client"
    case invalidGrant = "invalid_grant"
    case unauthorizedClient = "unauthorized_client"
    case unsupportedGrantType = "unsupported_grant_type"
    case invalidScope = "invalid_scope"
    case invalidTarget = "invalid_target"
    case temporarilyUnavailable = "temporarily_unavailable"
    case serverError = "server_error"
  }

  var code: Code
  var description: String
  /// Seconds.
  var retryAfter: Int?

  init(_ code: Code, _ description: String, retryAfter: Int? = nil) {
    self.code = code
    self.description = description
    self.retryAfter = retryAfter
  }
}

extension TokenForm {
  /// Nil: an access token.
  var kind: TokenKind? { exchangesFor == .idToken ? .idToken : nil }

  /// The most that a request's body may have, in bytes.
  static let longestBody = 16 << 10

  /// - Parameter authorization: the header, if any (RFC 6749 §2.3.1).
  init(form: String, authorization: String?) throws(TokenRefusal) {
    guard let parameters = FormEncoding.decode(form) else {
      throw TokenRefusal(.invalidRequest, "the body is not application/x-www-form-urlencoded text")
    }
    func value(_ name: String) throws(TokenRefusal) -> String? {
      let values = parameters.filter { $0.name == name }.map(\.value)
      guard values.count <= 1 else { throw TokenRefusal(.invalidRequest, "\(name) is there more than once") }
      // RFC 6749 §3.2: one without a value is as one that is not there.
      return values.first.flatMap { $0.isEmpty ? nil : $0 }
    }
    let named = try value("client_id")
    let basic = try Self.client(authorization)
    // RFC 6749 §2.3: one method at a time.
    guard basic == nil || named == nil || basic == named else {
      throw TokenRefusal(.invalidRequest, "the Authorization header and client_id name different clients")
    }
    let client = basic ?? named
    switch try value("grant_type") {
    case "client_credentials":
      guard let client else {
        throw TokenRefusal(.invalidRequest, "client_id is missing: it names an account, or a [[handle]]")
      }
      handle = client
    case "refresh_token":
      guard let token = try value("refresh_token") else {
        throw TokenRefusal(.invalidRequest, "refresh_token is missing: it names an account, or a [[handle]]")
      }
      handle = token
    case TokenExchangeRequest.grantType:
      (handle, exchangesFor) = try Self.exchange(value)
      guard client == nil || client == handle else {
        throw TokenRefusal(.invalidRequest, "client_id and subject_token name different accounts")
      }
    case nil: throw TokenRefusal(.invalidRequest, "grant_type is missing")
    case _?:
      throw TokenRefusal(
        .unsupportedGrantType, "grant_type is client_credentials, refresh_token or token-exchange here")
    }
    guard handle.utf8.count <= 128 else { throw TokenRefusal(.invalidClient, "there is no such handle") }
    let scope = try value("scope")
    scopes = scope.map { $0.split(separator: " ").map(String.init) }
    if scopes?.isEmpty == true { scopes = nil }
    // RFC 6749 §3.3.
    let isScope = scopes?.allSatisfy { $0.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C } }
    guard isScope ?? true else { throw TokenRefusal(.invalidScope, "the scope has characters that no scope has") }
    resource = try value("resource")
    // Clients of other grant types send it for their own server.
    audience = exchangesFor == nil ? nil : try value("audience")
    if exchangesFor == .idToken, scopes != nil || resource != nil {
      throw TokenRefusal(.invalidRequest, "an ID token has neither scopes nor a resource: leave out scope and resource")
    }
  }

  /// The account or handle of a token exchange (RFC 8693 §2.1), and the kind of token that it asks for. The handle is
  /// the subject token: a refresh token as far as the client can tell.
  private static func exchange(
    _ value: (String) throws(TokenRefusal) -> String?
  ) throws(TokenRefusal) -> (String, TokenKind) {
    guard let subject = try value("subject_token") else {
      throw TokenRefusal(.invalidRequest, "subject_token is missing: it names an account, or a [[handle]]")
    }
    let types = [TokenExchangeRequest.TokenType.refreshToken, .accessToken].map(\.rawValue)
    guard let type = try value("subject_token_type"), types.contains(type) else {
      throw TokenRefusal(.invalidRequest, "subject_token_type is \(types[0]) here")
    }
    guard try value("actor_token") == nil else {
      throw TokenRefusal(.invalidRequest, "there is no actor_token here")
    }
    switch try value("requested_token_type") {
    case nil, TokenExchangeRequest.TokenType.accessToken.rawValue: return (subject, .accessToken)
    case TokenExchangeRequest.TokenType.idToken.rawValue: return (subject, .idToken)
    case _?:
      throw TokenRefusal(
        .invalidRequest,
        "requested_token_type is one of \(TokenExchangeRequest.TokenType.idToken.rawValue) and "
          + TokenExchangeRequest.TokenType.accessToken.rawValue)
    }
  }

  /// The client id of `Basic`: as RFC 6749 has it form-encoded, which many clients leave out, and both read the same here.
  private static func client(_ authorization: String?) throws(TokenRefusal) -> String? {
    guard let authorization else { return nil }
    let parts = authorization.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "basic" else { return nil }
    guard let bytes = Data(base64Encoded: String(parts[1])), let text = String(validating: bytes, as: UTF8.self),
      let colon = text.firstIndex(of: ":")
    else { throw TokenRefusal(.invalidRequest, "the Authorization header does not use the Basic scheme") }
    let name = String(text[..<colon])
    guard name.contains("%") else { return name.isEmpty ? nil : name }
    return FormEncoding.unescape(name.utf8, plus: UInt8(ascii: "+"))
  }
}
