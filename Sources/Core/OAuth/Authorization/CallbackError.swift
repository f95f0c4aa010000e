/// Why an authorization response was rejected (RFC 6749 §4.1.2, RFC 9207 §2.4, RFC 9700 §2.1).
public enum CallbackError: Error, Equatable, Sendable {
  /// It cannot be read: an invalid escape, or text that is not UTF-8.
  case unreadable
  /// It is longer than any legitimate one.
  case tooLarge
  case duplicateParameter(String)
  case missingIssuer
  case wrongIssuer(String)
  case missingState
  case wrongState
  /// It has the state of a login with another redirect URI.
  case wrongAddress
  /// A token although only a code was requested.
  case unexpectedToken
  case neitherCodeNorError
  /// A token was requested (the implicit grant), but the response contains none; with the reason.
  case noToken(String)
  /// A signed response was requested (JARM), but this one is not signed.
  case unsigned
  /// The provider's signed response (JARM) was rejected; with the reason.
  case invalidSignedResponse(String)
  /// It contains nothing usable; with the reason.
  case unusable(String)
  /// The provider or the user denied the request: this ends the login.
  case denied(OAuthError)
  /// The user cancelled in the provider's application: this also ends the login.
  case cancelled
  /// It reports a cancellation, but not of which login.
  case cancelledSomewhere

  /// Whether the login stays pending: a response that could be forged must not cancel it.
  public var leavesLoginPending: Bool {
    switch self {
    case .denied, .cancelled: false
    case .unreadable, .tooLarge, .duplicateParameter, .missingIssuer, .wrongIssuer, .missingState, .wrongState,
      .wrongAddress,
      .unexpectedToken, .neitherCodeNorError, .noToken, .unsigned, .invalidSignedResponse, .unusable,
      .cancelledSomewhere:
      true
    }
  }
}

extension CallbackError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .unreadable: "This address cannot be read. Go back to the provider's page and sign in again."
    case .tooLarge: "This address is too long. Go back to the provider's page and sign in again."
    case .duplicateParameter(let name):
      "This address has “\(name)” twice, which no provider sends. Start the login again."
    case .missingIssuer:
      "The provider's answer does not say which provider sent it, though this provider promises to. Start the login "
        + "again."
    case .wrongIssuer(let found):
      "This answer is from “\(found)”, not from the provider that was asked. Start the login again."
    case .missingState:
      "This address has no “state”, so it cannot be matched with a login. Open the login's own link and sign in again."
    case .wrongState:
      "This answer belongs to no login that is waiting, or to an older one. Open the latest login's link."
    case .wrongAddress: "This address is not the redirection endpoint that the login was started with."
    case .unexpectedToken:
      "The provider sent a token through the browser, which was not asked for. Check the client's registration."
    case .neitherCodeNorError:
      "This address has neither a code nor an error. Go back to the provider's page and sign in again."
    case .noToken(let why): "The provider's answer has no token that can be used: \(why). Start the login again."
    case .unsigned:
      "The provider's answer is not signed, though it was asked to sign it. Start the login again; if it stays so, check "
        + "response_mode."
    case .invalidSignedResponse(let why): "The provider's answer cannot be trusted: \(why). Start the login again."
    case .unusable(let why): "The provider's answer cannot be used: \(why). Start the login again."
    case .cancelled: "The sign-in was cancelled in the provider's application. Start the login again to sign in."
    case .cancelledSomewhere:
      "The provider's application says that a sign-in was cancelled, and not which: the login goes on waiting. Sign in "
        + "by the browser, or end it with `grantctl login cancel`."
    case .denied(let error):
      error.code == .accessDenied
        ? "The sign-in was declined at the provider. Start the login again to allow it."
        : "The provider refused the sign-in: \(error.sentence) Start the login again."
    }
  }
}
