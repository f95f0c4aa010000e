import FoundationEssentials
public import Grants
public import OAuth

// The login: whether it is enabled, the sign-in page, and the exchange of the code.
extension VMSProvider {
  public func authorization(_ request: LoginRequest, metadata: ServerMetadata) -> Step<AuthorizationPlace> {
    let device = request.before.flatMap(Self.device(of:)) ?? Self.device(from: request.identifier)
    let warnings = request.warnings(of: description.kind)
    return .send(self.request(.discovery, "GET", ["static", "basic"], device: device)) { response, _ in
      guard response.isSuccess, let members = response.json?.dictionary else {
        return .failed(unavailable(response))
      }
      guard Self.isEnabled(members) else {
        return .failed(.unsupported(message: Self.disabled))
      }
      return place(device, warnings + languageWarning(members))
    }
  }

  static let disabled = "external login is disabled on this server"

  /// External login is enabled only if the value is `true`.
  static func isEnabled(_ members: [String: JSON]) -> Bool { members["is_external_auth_enabled"]?.bool == true }

  /// A warning if the server does not support the configured language.
  private func languageWarning(_ members: [String: JSON]) -> [String] {
    let locales = (members["available_locales"]?.array ?? []).compactMap(\.scalar)
    let own = settings.language.lowercased()
    guard !locales.isEmpty, !locales.contains(where: { $0.lowercased() == own }) else { return [] }
    let known = locales.prefix(16).joined(separator: ", ").printable(limit: 200)
    return ["the server does not speak \(settings.language); it speaks \(known)"]
  }

  private func place(_ device: String, _ warnings: [String]) -> Step<AuthorizationPlace> {
    .send(request(.discovery, "GET", ["external", "auth", "url"], device: device)) { response, _ in
      if response.status == 403 || response.status == 404 {
        return .failed(.unsupported(message: "\(Self.disabled): \(response.account)"))
      }
      guard response.isSuccess, let members = response.json?.dictionary else {
        return .failed(unavailable(response))
      }
      guard let text = members.text("url"), settings.site.isSafe(text),
        let url = URL(string: text, encodingInvalidCharacters: false)
      else {
        return .failed(
          .misconfigured(message: "the server gives no https address of its sign-in page", nil))
      }
      return .done(AuthorizationPlace(url: url, warnings: warnings, memory: [Memory.device: Secret(device)]))
    }
  }

  /// The failure for a refused request before the sign-in.
  private func unavailable(_ response: HTTPResponse) -> ProviderFailure {
    switch response.status {
    case 409: return tooOld(response)
    case 401, 403: return .denied(message: "the server has turned sign-in off: \(response.account)")
    case 404:
      return .misconfigured(message: "there is no video management system at base_url (HTTP 404)", nil)
    case 400..<500:
      let failure = response.refusal
      return failure.isOfProvider ? failure : .misconfigured(message: failure.message, nil)
    default: return response.isSuccess ? response.unusable("it is not a JSON object") : response.refusal
    }
  }

  func tooOld(_ response: HTTPResponse) -> ProviderFailure {
    .misconfigured(
      message: "the server does not work with this client: \(response.account). Set client_version (it is "
        + "\(settings.clientVersion.printable(limit: 64))) and client_name as the server wants them", nil)
  }

  // MARK: The callback

  /// The callback contains no login identifier, so it belongs to the pending login. For a private-use URI scheme only
  /// the scheme is compared, since path and slashes vary between servers.
  public func claim(_ callback: ReturnedAddress, login: SavedLogin) -> CallbackClaim {
    // A callback with a state belongs to another provider's login, whose code must not be used here.
    guard let own = try? RedirectURI(login.redirectURI), own.isWeb ? callback.isAt(own) : callback.scheme == own.scheme,
      callback.claimedState == nil
    else { return .foreign }
    switch callback.response {
    case .failure(let error): return .refused(error)
    case .success(let response):
      if response.code != nil { return .unnamed }
      guard let error = response.error else { return .refused(.neitherCodeNorError) }
      // The sender of the callback is not authenticated.
      return .refused(
        .unusable("it says \(error.code), which any site could have sent. Cancel the login if you declined it"))
    }
  }

  public func answer(
    to callback: ReturnedAddress, login: SavedLogin, metadata: ServerMetadata
  ) -> Step<Result<LoginAnswer, CallbackError>> {
    let found = callback.response.flatMap { response in
      response.code.map { .success($0) } ?? .failure(CallbackError.neitherCodeNorError)
    }
    return .done(found.map { .code($0, memory: login.memory) })
  }

  // MARK: Exchange of the code or key

  /// One sign-in request and the requests that follow from its response.
  struct Attempt: Sendable {
    var device: String?
    var code: Secret?
    var key: Secret?
    var hasNumbers = false
    /// The sessions that were already replaced.
    var replaced: [String] = []
    /// The number of sessions that were replaced automatically.
    var automatic = 0

    init(_ memory: [String: Secret]) {
      // Exposed to be sent.
      device = memory[Memory.device]?.exposed
      code = memory[Memory.code]
      key = memory[Memory.key]
      hasNumbers = memory[Memory.numbers] != nil
    }

    var memory: [String: Secret] {
      var memory: [String: Secret] = [:]
      memory[Memory.device] = device.map(Secret.init)
      memory[Memory.code] = code
      memory[Memory.key] = key
      if hasNumbers { memory[Memory.numbers] = Secret("true") }
      return memory
    }
  }

  public func exchange(code: Secret, login: SavedLogin, metadata: ServerMetadata) -> Step<LoginAnswer> {
    var attempt = Attempt(login.memory)
    attempt.code = code
    attempt.key = nil
    return signIn(attempt, replacing: nil)
  }

  public func resume(
    _ login: SavedLogin, with input: LoginInput, metadata: ServerMetadata
  ) -> Step<LoginAnswer> {
    switch input {
    case .session(let id): signIn(Attempt(login.memory), replacing: id)
    case .again: signIn(Attempt(login.memory), replacing: nil)
    case .attributes: .failed(.invalid(message: "a session to replace is wanted, and nothing else", nil))
    }
  }

  /// The key takes precedence over the code: if there is a key, the code is used up.
  func signIn(_ attempt: Attempt, replacing session: String?) -> Step<LoginAnswer> {
    var body: [String: JSON] = [:]
    // Exposed to be sent.
    if let key = attempt.key, !key.isEmpty {
      body["key"] = .string(key.exposed)
    } else if let code = attempt.code, !code.isEmpty {
      body["code"] = .string(code.exposed)
    } else {
      return .failed(.invalid(message: "there is neither a key nor a code to sign in with", nil))
    }
    var next = attempt
    if let session {
      body["session_id"] = attempt.hasNumbers ? JSON(message: session.utf8) ?? .string(session) : .string(session)
      next.replaced.append(session)
    }
    let request = request(.token, "POST", ["external", "auth", "callback"], device: attempt.device).carrying(body)
    return .send(request) { [next] response, _ in
      switch response.status {
      case 200..<300: issued(response, device: next.device)
      case 419: limited(response, next)
      default: .failed(refused(response))
      }
    }
  }

  private func refused(_ response: HTTPResponse) -> ProviderFailure {
    switch response.status {
    case 401: .denied(message: "the sign-in is not taken: \(response.account)")
    case 403: .denied(message: "this user may not sign in: \(response.account)")
    case 400, 422:
      .rejected(
        Rejection(
          code: response.status == 400 ? "bad_request" : "invalid_fields", message: response.account,
          fields: response.fields))
    case 409: tooOld(response)
    default: response.refusal
    }
  }
}
