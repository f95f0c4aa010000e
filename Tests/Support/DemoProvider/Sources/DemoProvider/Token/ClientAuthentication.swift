import Foundation
import Synchronization

extension Provider {
  /// The client of this identifier, unless it is unknown, deleted, or too new (`registration_delay`).
  func client(_ id: String, at now: Date) -> DemoServer.Client? {
    if let registration = ledger.withLock({ $0.registrations[id] }) {
      return registration.isDeleted || now < registration.knownFrom ? nil : registration.client
    }
    return options.clients.first { $0.id == id }
  }

  /// The client, authenticated in exactly one way (RFC 6749 §2.3): `none`, `client_secret_basic`,
  /// `client_secret_post`, `client_secret_jwt`, `private_key_jwt`.
  func client(of turn: Turn) throws(OAuthFailure) -> DemoServer.Client {
    let form = turn.request.form
    if form["client_assertion"] != nil || form["client_assertion_type"] != nil { return try asserted(turn) }
    var id = form["client_id"]
    var secret = form["client_secret"]
    var method = secret == nil ? "none" : "client_secret_post"
    if let basic = turn.request.credentials(scheme: "Basic") {
      guard secret == nil else { throw .invalidRequest("two methods of client authentication") }
      let isRaw = ledger.withLock { $0.settings.token.rawBasic }
      let parts = Data(base64Encoded: basic).map { String(decoding: $0, as: UTF8.self) }?
        .split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        .map { isRaw ? String($0) : Form.decode($0) }
      guard let parts, parts.count == 2 else { throw .invalidClient("the Basic credentials cannot be read") }
      guard id == nil || id == parts[0] else { throw .invalidRequest("client_id differs from the Basic credentials") }
      (id, secret, method) = (parts[0], parts[1], "client_secret_basic")
    }
    guard let id else { throw .invalidClient("no client_id") }
    guard let client = client(id, at: turn.now) else { throw .invalidClient("the client is unknown") }
    guard client.secret == secret, secret != nil || client.isPublic else {
      throw .invalidClient("the client's authentication is wrong")
    }
    try check(method, of: client)
    return client
  }

  private func check(_ method: String, of client: DemoServer.Client) throws(OAuthFailure) {
    guard client.authenticationMethod.map({ $0 == method }) ?? true else {
      throw .invalidClient("the client is registered with \(client.authenticationMethod ?? ""), not with \(method)")
    }
  }

  /// RFC 7523 §2.2 and §3, OIDC Core §9.
  private func asserted(_ turn: Turn) throws(OAuthFailure) -> DemoServer.Client {
    let form = turn.request.form
    do throws(OAuthFailure) {
      guard form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        let text = form["client_assertion"]
      else { throw .invalidRequest("client_assertion and client_assertion_type belong together") }
      guard form["client_secret"] == nil, turn.request.credentials(scheme: "Basic") == nil else {
        throw .invalidRequest("two methods of client authentication")
      }
      guard let assertion = CompactJWT(text), let id = assertion.claims["iss"]?.string,
        assertion.claims["sub"]?.string == id, form["client_id"] == nil || form["client_id"] == id
      else { throw .invalidClient("iss, sub and client_id of a client assertion are the client's identifier") }
      guard let client = client(id, at: turn.now) else { throw .invalidClient("the client is unknown") }
      if assertion.algorithm.hasPrefix("HS") {
        guard let secret = client.secret, assertion.verifies(by: secret) else {
          throw .invalidClient("the client assertion's MAC is wrong")
        }
        try check("client_secret_jwt", of: client)
      } else {
        guard assertion.verifies(by: client.keys) else {
          throw .invalidClient("the client assertion's signature is wrong")
        }
        try check("private_key_jwt", of: client)
      }
      try check(assertion, lifetime: Limits.assertionLifetime, at: turn.now) { .invalidClient($0) }
      guard assertion.claims["jti"] != nil else { throw .invalidClient("a client assertion needs a jti") }
      ledger.withLock { $0.count(.assertion) }
      return client
    } catch {
      ledger.withLock { $0.count(.assertionRefused) }
      throw error
    }
  }

  /// The audience, the times and the `jti` of an assertion whose signature is good (RFC 7523 §3).
  func check(
    _ assertion: CompactJWT, lifetime: Double, at now: Date, refusal: (String) -> OAuthFailure
  ) throws(OAuthFailure) {
    let audiences =
      switch ledger.withLock({ $0.settings.token.assertionAudience }) {
      case .either: [issuer, "\(issuer)/token"]
      case .tokenEndpoint: ["\(issuer)/token"]
      case .issuer: [issuer]
      }
    guard assertion.audience(isOneOf: audiences) else { throw refusal("the assertion is for another audience") }
    let time = now.timeIntervalSince1970
    guard let expires = assertion.claims["exp"]?.number, expires > time - Limits.clockTolerance else {
      throw refusal("the assertion has no exp, or has expired")
    }
    guard expires <= time + lifetime + Limits.clockTolerance else {
      throw refusal("the assertion lives longer than \(Int(lifetime)) seconds")
    }
    for claim in ["iat", "nbf"] {
      guard assertion.claims[claim].map({ ($0.number ?? .infinity) <= time + Limits.clockTolerance }) ?? true else {
        throw refusal("the assertion's \(claim) is in the future")
      }
    }
    guard let identifier = assertion.claims["jti"]?.string else { return }
    let owner = assertion.claims["iss"]?.string ?? ""
    guard ledger.withLock({ $0.use(identifier: "assertion \(owner) \(identifier)") }) else {
      throw refusal("the assertion's jti was used before")
    }
  }
}

extension Ledger {
  /// Whether it is used for the first time.
  mutating func use(identifier: String) -> Bool {
    guard identifiers[identifier] == nil else {
      count(.replay)
      return false
    }
    identifiers.insert(true, for: identifier)
    return true
  }
}
