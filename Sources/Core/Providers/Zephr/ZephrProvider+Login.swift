import FoundationEssentials
public import Grants
public import OAuth

// The login: the identity provider, the sign-in page, and the callback.
extension ZephrProvider {
  public func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace> {
    let identityProvider: String
    do throws(ProviderFailure) {
      identityProvider = try self.identityProvider(request.identityProvider)
    } catch {
      return .failed(error)
    }
    var query: [Parameter] = []
    if let type = settings.clientType { query.append(Parameter("client_type", type)) }
    if let name = settings.redirectParameter, let uri = request.redirectURI {
      query.append(Parameter(name, uri.rawValue))
    }
    let warnings = request.warnings(of: description.kind)
    let subject = request.before?.identity?.subject
    let start = self.request(
      .discovery, "GET", url(["oauth", identityProvider], query: query), cookies: Cookies())
    return .send(start) { response, now in
      place(response, identityProvider, now).map { url, cookies in
        var memory: [String: Secret] = [:]
        memory[Memory.cookies] = cookies.header.map(Secret.init)
        memory[Memory.subject] = subject.map(Secret.init)
        return AuthorizationPlace(url: url, warnings: warnings, memory: memory)
      }
    }
  }

  /// The maximum length of an identity provider's name, in bytes.
  static let longestName = 64

  private func identityProvider(_ asked: String?) throws(ProviderFailure) -> String {
    let known = settings.identityProviders
    let only = known.count == 1 ? known.first : nil
    let list = known.isEmpty ? "such as `google`" : "one of \(known.joined(separator: ", "))"
    guard let name = asked ?? settings.standardIdentityProvider ?? only else {
      throw .invalid(message: "params.idp: expected the identity provider to sign in with, \(list)", nil)
    }
    guard Self.isName(name), known.isEmpty || known.contains(name) else {
      throw .invalid(
        message: "params.idp: no identity provider \(name.printable(limit: 64)): expected \(list)", nil)
    }
    return name
  }

  /// Whether the text is a single path segment.
  public static func isName(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= longestName && text != "." && text != ".."
      && text.utf8.allSatisfy {
        (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
          || "-._".utf8.contains($0)
      }
  }

  /// The target of the server's redirect: the broker does not follow it, a browser opens it.
  private func place(
    _ response: HTTPResponse, _ identityProvider: String, _ now: Timestamp
  ) -> Step<(URL, Cookies)> {
    guard (300..<400).contains(response.status) else { return .failed(notStarted(response, identityProvider)) }
    let base = url(["oauth", identityProvider])
    guard let text = response.header("Location"),
      let url = URL(string: text, relativeTo: base)?.absoluteURL, settings.site.isSafe(url.absoluteString)
    else {
      return .failed(
        .misconfigured(
          message:
            "the start with \(identityProvider) leads nowhere: a redirect without a Location that is an https address",
          nil))
    }
    var cookies = Cookies()
    cookies.store(response, at: now)
    return .done((url, cookies))
  }

  private func notStarted(_ response: HTTPResponse, _ identityProvider: String) -> ProviderFailure {
    switch response.status {
    case 404:
      return .misconfigured(
        message:
          "there is no start with \(identityProvider) at \(url(["oauth"]).absoluteString): is path_prefix right, "
          + "and the identity provider known there?", nil)
    case 401, 403: return .denied(message: "the server starts no login with \(identityProvider): \(response.account)")
    case _ where response.isSuccess:
      return .misconfigured(
        message: "the server does not lead to \(identityProvider): it answers HTTP \(response.status) and no redirect",
        nil)
    default:
      let failure = response.refusal
      return failure.isOfProvider ? failure : .misconfigured(message: failure.message, nil)
    }
  }

  // MARK: The callback

  /// The callback contains no login identifier: it belongs to the pending login, or to the login with this redirect
  /// URI.
  public func claim(_ callback: ReturnedAddress, login: SavedLogin) -> CallbackClaim {
    // A callback with a state belongs to another provider's login.
    guard (try? RedirectURI(login.redirectURI)).map(callback.isAt) ?? false, callback.claimedState == nil else {
      return .foreign
    }
    if case .failure(let error) = callback.response { return .refused(error) }
    guard callback.value("status") != nil else { return .refused(.unusable("it has no status")) }
    return settings.redirectsWithNonce ? .named : .unnamed
  }

  public func answer(
    to callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<LoginAnswer, CallbackError>> {
    var memory = login.memory
    memory[Memory.trackingID] = callback.value("tracking_id").map { Secret(String($0.prefix(256))) }
    switch callback.value("status") {
    case "success":
      guard let id = callback.value("session_id"), Cookies.isValue(id) else {
        return .done(.failure(.unusable("it says success, and has no session_id that can be used")))
      }
      return verified(ZephrSession(id: Secret(id)), memory)
    case "partial":
      guard let key = callback.value("state_key"), !key.isEmpty else {
        return .done(.failure(.unusable("it asks for a registration, and has no state_key")))
      }
      let identifier = callback.value("identifier").flatMap { $0.isEmpty ? nil : String($0.prefix(256)) }
      memory[Memory.stateKey] = Secret(key)
      memory[Memory.identifier] = identifier.map(Secret.init)
      return .done(.success(.action(.registration(identifier: identifier), memory: memory)))
    case "failure":
      return .done(
        .failure(.denied(OAuthError(code: OAuthErrorCode(rawValue: "failure"), description: callback.value("message"))))
      )
    case let other:
      let status = (other ?? "").printable(limit: 64)
      return .done(.failure(.unusable("unknown auth response status “\(status)”")))
    }
  }

  /// Fetches the profile to check that the server knows the session: any site could have sent the callback.
  private func verified(
    _ session: ZephrSession, _ memory: [String: Secret]
  ) -> Step<Result<LoginAnswer, CallbackError>> {
    .send(request(.userinfo, "GET", url(["profile"]), cookies: cookies(session.id, others(memory)))) { response, now in
      if response.status == 401 || response.status == 403 {
        return .done(.failure(.unusable("the server does not know its session (HTTP \(response.status))")))
      }
      guard response.isSuccess, let profile = response.json?.dictionary else {
        return .failed(response.isSuccess ? response.unusable("it is not a JSON object") : response.refusal)
      }
      switch issued(session, profile: profile, memory, renewed: self.session(in: response, at: now)) {
      case .success(let issued): return .done(.success(.issued(issued)))
      case .failure(let failure): return .done(.failure(.unusable(failure.message)))
      }
    }
  }

  /// The cookies of a login, without the session cookie.
  func others(_ memory: [String: Secret]) -> Cookies {
    // Exposed to be sent.
    var cookies = Cookies(header: memory[Memory.cookies]?.exposed ?? "")
    cookies.set(.init(name: settings.cookieName, value: "", life: .zero))
    return cookies
  }

  /// The data to store with the account.
  ///
  /// - Parameter renewed: a session that the profile response set.
  func issued(
    _ session: ZephrSession, profile: [String: JSON], _ memory: [String: Secret], renewed: ZephrSession?
  ) -> Result<Issued, ProviderFailure> {
    let identity = identity(profile, identifier: memory[Memory.identifier]?.exposed)
    if identity == nil, memory[Memory.subject] != nil {
      return .failure(
        .denied(
          message: "the profile does not say who signed in, and the account has a user; see subject_members"))
    }
    var extra: [String: JSON] = [:]
    // Exposed: the server's identifier of the sign-in, which is not a secret.
    extra["tracking_id"] = memory[Memory.trackingID].map { .string($0.exposed) }
    // Exposed to be stored with the grant, and for programs that call the server as this device.
    extra[Memory.cookies] = others(memory).header.map { .string($0) }
    let session = ZephrSession(id: renewed?.id ?? session.id, life: renewed?.life ?? session.life)
    let tokens = TokenResponse(
      accessToken: session.id, tokenType: SavedToken.session, expiresIn: session.life, scope: [],
      extra: Data(JSON.object(extra).serialized(sorted: true)))
    return .success(Issued(tokens: tokens, idToken: nil, identity: identity, warning: nil))
  }

  /// - Parameter identifier: the user identifier from the callback, used if the profile contains none.
  private func identity(_ profile: [String: JSON], identifier: String?) -> Identity? {
    func text(_ paths: String...) -> String? { profile.first(at: paths).map { String($0.prefix(256)) } }
    let subject = profile.first(at: settings.subjectMembers).map { String($0.prefix(256)) } ?? identifier
    guard let subject else { return nil }
    let address = identifier.flatMap { $0.contains("@") ? $0 : nil }
    return Identity(
      subject: subject, email: text("email", "email_address", "identifiers.email_address") ?? address,
      name: text("name", "display_name"), username: text("username"))
  }
}
