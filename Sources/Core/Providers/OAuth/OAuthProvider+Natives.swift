import FoundationEssentials
import Grants
import OAuth

// Sign-in through the provider's applications on this machine.
extension OAuthProvider {
  /// The key in the login's memory for the echoed value of an application without RFC support.
  static let connectState = "connect.state"
  /// The redirect URI for the exchange of a code from such an application.
  static let connectRedirectURI = "connect.redirect_uri"

  /// The applications that a login may try, in order.
  func apps(_ request: LoginRequest) -> [NativeApp] {
    guard let wanted = request.apps else { return settings.signIn.native.apps }
    return wanted.compactMap { name in settings.signIn.native.apps.first { $0.name == name } }
  }

  /// The browser's authorization request without the prompts that the applications do not support.
  func native(_ message: AuthorizationRequest) -> AuthorizationRequest {
    guard let taken = settings.signIn.native.prompts, let prompt = message.prompt else { return message }
    var native = message
    native.prompt = prompt.split(separator: " ").filter { taken.contains(String($0)) }.joined(separator: " ")
    return native
  }

  /// The request to Dropbox's application. Nil if it is impossible: the application issues no code without a challenge.
  func question(_ request: LoginRequest) -> DropboxConnect? {
    if settings.signIn.isImplicit {
      return DropboxConnect(clientID: settings.client.id, question: .token(nonce: request.state))
    }
    guard let challenge = request.verifier?.challenge else { return nil }
    let isOffline = settings.sentParameters(with: request.parameters)["token_access_type"] == "offline"
    return DropboxConnect(
      clientID: settings.client.id,
      question: .code(challenge: challenge, isOffline: isOffline, scopes: request.scopes))
  }

  // MARK: The application's response

  /// The claim for a URL that Dropbox's application opened; nil for any other URL.
  func connectClaim(_ callback: ReturnedAddress, _ login: SavedLogin) -> CallbackClaim? {
    guard let state = connectState(callback, login) else { return nil }
    switch DropboxConnect.state(of: callback) {
    case state: return .named
    case .some: return .refused(.wrongState)
    case nil where !DropboxConnect.isCancel(callback): return .refused(.missingState)
    // Any web page can open this URL. It ends a login only if the user was sent to the application, since only the
    // application can cancel there, and only if one login matches.
    case nil: return isOpenInApp(login) ? .unnamed : .refused(.cancelledSomewhere)
    }
  }

  /// The response of the application, after all checks.
  func connectAnswer(
    _ callback: ReturnedAddress, _ login: SavedLogin
  ) -> Result<LoginAnswer, CallbackError>? {
    guard let state = connectState(callback, login) else { return nil }
    if DropboxConnect.isCancel(callback), DropboxConnect.state(of: callback) == nil { return .failure(.cancelled) }
    return Result { () throws(CallbackError) in
      let wantsToken = settings.signIn.isImplicit
      switch try DropboxConnect.answer(callback, state: state, wantsToken: wantsToken) {
      case .code(let code):
        let redirectURI = Secret(DropboxConnect.redirectURI(clientID: settings.client.id))
        return .code(
          code, memory: callbackMemory(callback.query).merging([Self.connectRedirectURI: redirectURI]) { $1 })
      case .token(let token):
        let tokens = TokenResponse(
          accessToken: token, tokenType: "Bearer", expiresIn: settings.token.response.fixedLifetime)
        return .issued(issued(tokens.keeping(kept(callback.query, settings.token.response.keepMembers))))
      }
    }
  }

  private func connectState(_ callback: ReturnedAddress, _ login: SavedLogin) -> Secret? {
    guard DropboxConnect.isCallback(callback, clientID: settings.client.id) else { return nil }
    return login.memory[Self.connectState]
  }

  private func isOpenInApp(_ login: SavedLogin) -> Bool {
    guard let opened = login.opened, opened.kind == "native" else { return false }
    return settings.signIn.native.apps.contains { $0.name == opened.app && $0.style == .dropbox }
  }
}
