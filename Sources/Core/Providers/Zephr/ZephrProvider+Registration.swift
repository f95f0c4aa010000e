import FoundationEssentials
public import Grants
public import OAuth

// A new user must register before the first sign-in completes.
extension ZephrProvider {
  public func resume(
    _ login: SavedLogin, with input: LoginInput, metadata: ServerMetadata
  ) -> Step<LoginAnswer> {
    guard case .attributes(let data) = input, let attributes = JSON(message: data), attributes.dictionary != nil else {
      return .failed(.invalid(message: "attributes are wanted, and nothing else", nil))
    }
    guard let key = login.memory[Memory.stateKey] else {
      return .failed(.invalid(message: "there is no state_key to register with", nil))
    }
    let request = request(.registration, "POST", url(["register"]), cookies: others(login.memory)).carrying([
      // Exposed to be sent.
      "identifiers": .object([:]), "validators": .object(["token_exchange": .string(key.exposed)]),
      "attributes": attributes,
    ])
    return .send(request) { response, now in
      guard response.isSuccess else { return .failed(refused(response)) }
      guard let session = session(in: response, at: now) else {
        return .failed(
          .invalid(message: "the server registered the user, and returned no session \(settings.cookieName)", nil))
      }
      var memory = login.memory
      if let id = response.members.text("tracking_id") { memory[Memory.trackingID] = Secret(String(id.prefix(256))) }
      var cookies = others(memory)
      cookies.store(response, at: now)
      memory[Memory.cookies] = cookies.header.map(Secret.init)
      return known(session, memory)
    }
  }

  private func refused(_ response: HTTPResponse) -> ProviderFailure {
    let code: String
    switch response.status {
    case settings.userExistsStatus: code = "user_exists"
    case settings.emailDomainStatus: code = "email_domain_blocked"
    case 400, 422: code = "bad_request"
    // The state_key has expired: other attributes would not help.
    case 401: return .denied(message: "the registration is over: \(response.account)")
    default: return response.refusal
    }
    let words = ["user_exists": "this user exists already", "email_domain_blocked": "this e-mail domain is refused"]
    let hints = [
      "user_exists":
        "Cancel this login, and sign in with the identity provider that the user signed up with (`--idp`).",
      "email_domain_blocked": "Cancel this login, and sign in with an account that has another e-mail address.",
    ]
    let message = response.words ?? words[code] ?? "the attributes are refused"
    return .rejected(
      Rejection(code: code, message: "\(message) (HTTP \(response.status))", fields: response.fields, hint: hints[code])
    )
  }

  /// The user is registered. The login fails only if the server does not know the session.
  private func known(_ session: ZephrSession, _ memory: [String: Secret]) -> Step<LoginAnswer> {
    .attempt(request(.userinfo, "GET", url(["profile"]), cookies: cookies(session.id, others(memory)))) { result, now in
      let response = try? result.get()
      if response?.status == 401 {
        return .failed(.denied(message: "the server does not take the session that it has just given (HTTP 401)"))
      }
      let profile = response.flatMap { $0.isSuccess ? $0.members : nil } ?? [:]
      let renewed = response.flatMap { self.session(in: $0, at: now) }
      return .ended(issued(session, profile: profile, memory, renewed: renewed).map { .issued($0) })
    }
  }
}
