public import FoundationEssentials

/// How Dropbox's own application signs a person in for another program: by custom schemes, and by no RFC.
public struct DropboxConnect: Sendable, Equatable {
  public enum Question: Sendable, Equatable {
    /// An access token, by the nonce that comes back.
    case token(nonce: Secret)
    /// A code, by the challenge, which comes back (RFC 7636 §4.2). Empty scopes: all that the client has.
    case code(challenge: String, isOffline: Bool, scopes: [String])
  }

  /// What the application answered, every check done.
  public enum Answer: Sendable, Equatable {
    case code(Secret)
    case token(Secret)
  }

  public var clientID: String
  public var question: Question

  public init(clientID: String, question: Question) {
    self.clientID = clientID
    self.question = question
  }

  /// The redirect URI of the application's own codes, which their exchange names (RFC 6749 §4.1.3), whatever the web
  /// login's is.
  public static func redirectURI(clientID: String) -> String { "db-\(clientID)://2/token" }

  /// What the application echoes: only this login's own answer has it.
  public var state: Secret {
    switch question {
    // Exposed to be sent.
    case .token(let nonce): Secret("oauth2:\(nonce.exposed)")
    case .code(let challenge, let isOffline, _): Secret("oauth2code:\(challenge):S256:\(isOffline ? "offline" : "")")
    }
  }

  /// The address that opens the application.
  ///
  /// - Parameter app: where the application listens (`dbapi-2://1/connect`), without a query.
  public func url(of app: URL) -> URL? {
    // Exposed to be sent. It is written as it is, as the application's own libraries do: its letters need no escape.
    var text = "\(app.absoluteString)?\(FormEncoding.query([Parameter("k", clientID), Parameter("s", "")]))"
    text += "&state=\(state.exposed)"
    if case .code(let challenge, let isOffline, let scopes) = question {
      var more = [
        Parameter("code_challenge", challenge), Parameter("code_challenge_method", "S256"),
        Parameter("response_type", "code"),
      ]
      if isOffline { more.append(Parameter("token_access_type", "offline")) }
      if !scopes.isEmpty { more.append(Parameter("scope", scopes.joined(separator: " "))) }
      text += "&\(FormEncoding.query([Parameter("extra_query_params", FormEncoding.query(more))]))"
    }
    return URL(string: text, encodingInvalidCharacters: false)
  }

  // MARK: The answer

  /// Where the application calls back: `db-KEY://1/connect`, and any other path there where the person turned back.
  public static func isCallback(_ address: ReturnedAddress, clientID: String) -> Bool {
    address.isUnder(scheme: "db-\(clientID)".lowercased(), host: "1")
  }

  public static func isCancel(_ address: ReturnedAddress) -> Bool { address.path != "/connect" }

  /// The `state` that it claims; nothing of it is proven.
  public static func state(of address: ReturnedAddress) -> Secret? {
    address.value("state").flatMap { text in
      text.isEmpty || text.utf8.count > AuthorizationResponse.longestState ? nil : Secret(text)
    }
  }

  /// What the application brought, if it has the state that it was sent. What that does not prove is anybody's, so it comes
  /// first. A code is never taken for a token.
  public static func answer(
    _ address: ReturnedAddress, state: Secret, wantsToken: Bool
  ) throws(CallbackError) -> Answer {
    guard let found = self.state(of: address) else { throw .missingState }
    guard found == state else { throw .wrongState }
    if isCancel(address) { throw .cancelled }
    func value(_ name: String) throws(CallbackError) -> String? {
      guard let text = address.value(name), !text.isEmpty else { return nil }
      guard text.utf8.count <= AuthorizationResponse.longestCode else { throw .tooLarge }
      return text
    }
    if let error = try value("error") {
      throw .denied(
        OAuthError(
          code: OAuthErrorCode(rawValue: error), description: try value("error_description"),
          uri: try value("error_uri")))
    }
    let kind = try value("oauth_token")
    let secret = try value("oauth_token_secret")
    let (plain, own) = (try value("code"), try value("oauth_code"))
    let code = plain ?? own ?? (kind == codeMark ? secret : nil)
    guard wantsToken else {
      if let code { return .code(Secret(code)) }
      throw secret == nil ? .neitherCodeNorError : .unexpectedToken
    }
    guard code == nil, kind?.hasPrefix(codeMark) != true else {
      throw .noToken("it has a code, and a token was asked for")
    }
    guard let secret else { throw .noToken("oauth_token_secret is not there") }
    return .token(Secret(secret))
  }

  /// `oauth_token`, where what stands beside it is a code.
  private static let codeMark = "oauth2code:"
}
