public import FoundationEssentials

/// Sign-in through Dropbox's own application for another program, by custom URI schemes and without an RFC.
public struct DropboxConnect: Sendable, Equatable {
  public enum Question: Sendable, Equatable {
    /// An access token, with a nonce that the application echoes.
    case token(nonce: Secret)
    /// A code, with a challenge that the application echoes (RFC 7636 §4.2). Empty scopes: all that the client has.
    case code(challenge: String, isOffline: Bool, scopes: [String])
  }

  /// The application's response, after all checks.
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

  /// The redirect URI of codes from the application, required for their exchange (RFC 6749 §4.1.3). It does not depend
  /// on the redirect URI of the web login.
  public static func redirectURI(clientID: String) -> String { "db-\(clientID)://2/token" }

  /// The value that the application echoes: only this login's response has it.
  public var state: Secret {
    switch question {
    // Exposed to be sent.
    case .token(let nonce): Secret("oauth2:\(nonce.exposed)")
    case .code(let challenge, let isOffline, _): Secret("oauth2code:\(challenge):S256:\(isOffline ? "offline" : "")")
    }
  }

  /// The URL that opens the application.
  ///
  /// - Parameter app: the application's URL (`dbapi-2://1/connect`), without a query.
  public func url(of app: URL) -> URL? {
    // Exposed to be sent. Written without escaping, as in the application's own libraries: its characters need none.
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

  // MARK: The response

  /// The application's callback: `db-KEY://1/connect`, or another path of the same host if the user cancelled.
  public static func isCallback(_ address: ReturnedAddress, clientID: String) -> Bool {
    address.isUnder(scheme: "db-\(clientID)".lowercased(), host: "1")
  }

  public static func isCancel(_ address: ReturnedAddress) -> Bool { address.path != "/connect" }

  /// The claimed `state`, not verified.
  public static func state(of address: ReturnedAddress) -> Secret? {
    address.value("state").flatMap { text in
      text.isEmpty || text.utf8.count > AuthorizationResponse.longestState ? nil : Secret(text)
    }
  }

  /// The application's result, if it has the state that was sent. A response without that state may come from any
  /// sender, so it is checked first. A code is never accepted as a token.
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

  /// The `oauth_token` value which means that the other value is a code.
  private static let codeMark = "oauth2code:"
}
