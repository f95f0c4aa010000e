import Foundation
import NIOHTTP1
import Synchronization

extension Provider {
  /// The control API. It serves test programs only: a request of a web page carries an Origin and is refused.
  func control(_ command: String, _ request: Request) -> Response {
    guard !request.headers.contains(name: "origin") else {
      return .json(["error": "the control API is not for web pages"], status: 403)
    }
    do throws(ControlFailure) {
      switch (request.method, command) {
      case (.GET, "stats"): return .json(stats().json)
      case (.GET, "settings"): return .json(ledger.withLock { $0.settings.json })
      case (.POST, "settings"): return try change(request)
      case (.GET, "fault"): return .json(DemoServer.Fault.catalogue)
      case (.POST, "fault"):
        try add(DemoServer.Fault(body(of: request)))
        return .json(["ok": true])
      case (.POST, "reset"):
        reset()
        return .json(["ok": true])
      case (.POST, "release"):
        release()
        return .json(["ok": true])
      case (.GET, "requests"): return .json(.array(ledger.withLock { $0.log.map(\.json) }))
      case (.POST, "token"): return try facts(of: body(of: request))
      default: return try command == "revoke_user" ? revokeUser(request) : act(command, request)
      }
    } catch {
      return .json(["error": .string(error.description)], status: 400)
    }
  }

  private func revokeUser(_ request: Request) throws(ControlFailure) -> Response {
    guard let name = try body(of: request)["user"]?.string, let user = User(hint: name) else {
      throw ControlFailure("user is alice, bob or user-N")
    }
    return .json(["revoked": .int(revoke(user))])
  }

  private func act(_ command: String, _ request: Request) throws(ControlFailure) -> Response {
    guard request.method == .POST else { return .json(["error": "no such command"], status: 404) }
    let body = try body(of: request)
    switch command {
    case "rotate_keys":
      guard let algorithm = DemoServer.Algorithm(rawValue: body["alg"]?.string ?? "RS256") else {
        throw ControlFailure("alg is one of: \(DemoServer.Algorithm.allCases.map(\.rawValue).joined(separator: ", "))")
      }
      return .json(["kid": .string(try rotateKeys(algorithm, keepingOld: body["keep_old"]?.bool ?? true))])
    case "rotate_dpop_nonce": return .json(["nonce": .string(ledger.withLock { $0.rotateNonce() })])
    case "device":
      try answerDevice(body["user_code"]?.string, decision: body["decision"]?.string, user: body["user"]?.string)
      return .json(["ok": true])
    case "client":
      try add(DemoServer.Client(body))
      return .json(["ok": true])
    case "service_account":
      guard let issuer = body["issuer"]?.string, let keys = body["jwks"]?.keys else {
        throw ControlFailure("a service account has an issuer and jwks")
      }
      add(DemoServer.ServiceAccount(issuer: issuer, keys: keys))
      return .json(["ok": true])
    default: return try system(command, body)
    }
  }

  func body(of request: Request) throws(ControlFailure) -> DemoServer.JSON {
    if request.body.isEmpty { return [:] }
    guard let json = DemoServer.JSON(text: request.body) else { throw ControlFailure("the body is not JSON") }
    return json
  }

  private func facts(of body: DemoServer.JSON) throws(ControlFailure) -> Response {
    let now = options.now()
    if let text = body["token"]?.string { return .json(ledger.withLock { $0.facts(of: text, at: now) }) }
    guard let fingerprint = body["refresh_token_sha256"]?.string else {
      throw ControlFailure("the body names a token or a refresh_token_sha256")
    }
    return .json(ledger.withLock { $0.facts(of: $0.refreshToken(fingerprint: fingerprint) ?? "", at: now) })
  }

  private func change(_ request: Request) throws(ControlFailure) -> Response {
    guard case .object(let patch) = try body(of: request) else { throw ControlFailure("settings are a JSON object") }
    return try ledger.withLock { ledger throws(ControlFailure) in
      ledger.settings = try ledger.settings.patched(by: patch)
      return .json(ledger.settings.json)
    }
  }

  func add(_ fault: DemoServer.Fault) throws(ControlFailure) {
    try fault.check()
    try ledger.withLock { ledger throws(ControlFailure) in
      guard ledger.faults.count < Limits.faults else { throw ControlFailure("too many faults are set") }
      ledger.faults.append(fault)
    }
  }

  /// The answers that are delayed now come at once.
  func release() {
    ledger.withLock { $0.releases += 1 }
  }

  /// Faults, counts and settings as at the start; grants and keys stay.
  func reset() {
    ledger.withLock { ledger in
      ledger.faults = []
      ledger.counts = [:]
      ledger.faultHits = [:]
      ledger.events = [:]
      ledger.revocations = []
      ledger.prefills = []
      ledger.log = []
      ledger.settings = options.settings
    }
  }

  func revoke(_ user: User) -> Int {
    ledger.withLock { $0.endGrants(of: user) + $0.vms.endAll(of: user) + $0.zephr.endAll(of: user) }
  }

  /// A new signing key; the old ones stay published or vanish. Its identifier.
  func rotateKeys(_ algorithm: DemoServer.Algorithm, keepingOld: Bool) throws(ControlFailure) -> String {
    guard let key = try? SigningKey(algorithm) else { throw ControlFailure("no key could be made") }
    ledger.withLock { ledger in
      ledger.keys = Array(([key] + (keepingOld ? ledger.keys : [])).prefix(Limits.signingKeys))
    }
    return key.kid
  }

  /// What a person answers for a device: `allow`, as the user, or `deny`.
  func answerDevice(_ userCode: String?, decision: String?, user name: String?) throws(ControlFailure) {
    guard let user = User(hint: name ?? "alice") else { throw ControlFailure("user is alice, bob or user-N") }
    guard decision == nil || decision == "allow" || decision == "deny" else {
      throw ControlFailure("decision is allow or deny")
    }
    let now = options.now()
    guard ledger.withLock({ $0.answerDevice(userCode, with: decision == "deny" ? nil : user, at: now) }) else {
      throw ControlFailure("no device waits with this code")
    }
  }

  /// A client known from now on, in place of one with its identifier.
  func add(_ client: DemoServer.Client) {
    let registration = Ledger.Registration(client: client, metadata: [:], token: "", knownFrom: .distantPast)
    ledger.withLock { $0.registrations.insert(registration, for: client.id) }
  }

  func add(_ account: DemoServer.ServiceAccount) {
    ledger.withLock { $0.serviceAccounts.insert(account, for: account.issuer) }
  }
}

extension DemoServer.Client {
  /// By the names of RFC 7591 §2; it is public unless there is a secret or a key.
  fileprivate init(_ json: DemoServer.JSON) throws(ControlFailure) {
    guard let id = json["client_id"]?.string else { throw ControlFailure("a client has a client_id") }
    self.init(
      id: id, secret: json["client_secret"]?.string, redirectURIs: json["redirect_uris"]?.strings ?? [],
      keys: json["jwks"]?.keys ?? [], authenticationMethod: json["token_endpoint_auth_method"]?.string)
  }
}

extension DemoServer.JSON {
  /// The keys of a JWK set (RFC 7517 §5); nil where it is none, or has too many.
  var keys: [Self]? {
    guard case .array(let keys)? = self["keys"], keys.count <= Limits.clientKeys else { return nil }
    return keys
  }

  /// Nil where it is no list of strings.
  var strings: [String]? {
    guard case .array(let all) = self else { return nil }
    let strings = all.compactMap(\.string)
    return strings.count == all.count ? strings : nil
  }
}
