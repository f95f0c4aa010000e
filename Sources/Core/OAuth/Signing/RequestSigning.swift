import FoundationEssentials

extension HTTPRequest {
  /// A signature that must be made for each transmission, since servers accept each one once.
  public enum Signature: Sendable, Equatable {
    /// Client authentication (RFC 7523 §2.2); without an audience, for the URL of the request.
    case clientAssertion(key: SigningKey, clientID: String, audience: String?)
    /// The grant of a service account (RFC 7523 §2.1).
    case grantAssertion(key: SigningKey, claims: GrantAssertionClaims)
    /// Proof of possession of the key that the token is bound to (RFC 9449 §4).
    case proof(key: DPoPKey, accessToken: Secret?)
  }

  /// Adds a proof by this key (RFC 9449 §4); nil changes nothing.
  ///
  /// - Parameter accessToken: the token in a request to a resource; nil at the authorization server.
  public func proving(_ key: DPoPKey?, accessToken: Secret? = nil) -> HTTPRequest {
    guard let key else { return self }
    var request = self
    request.signatures.removeAll { if case .proof = $0 { true } else { false } }
    request.signatures.append(.proof(key: key, accessToken: accessToken))
    return request
  }

  /// The request for one transmission, with new ``signatures``. Signatures of an earlier call are replaced.
  ///
  /// - Parameters:
  ///   - identifier: makes a `jti`: at least 96 random bits, fresh for each.
  ///   - nonce: the latest DPoP nonce from the server (RFC 9449 §8).
  public func signed(
    at now: Timestamp, identifier: () -> String, nonce: String?
  ) throws(SigningKeyError) -> HTTPRequest {
    var request = self
    for signature in signatures {
      switch signature {
      case .clientAssertion(let key, let clientID, let audience):
        let assertion = try ClientAssertion.make(
          key: key, clientID: clientID, audience: audience ?? url.absoluteString, identifier: identifier(), at: now)
        // Exposed to be sent.
        request.setParameters([
          Parameter("client_assertion_type", ClientAssertion.type), Parameter("client_assertion", assertion.exposed),
        ])
      case .grantAssertion(let key, let claims):
        let assertion = try claims.assertion(key: key, identifier: identifier(), at: now)
        // Exposed to be sent.
        request.setParameters([Parameter("assertion", assertion.exposed)])
      case .proof(let key, let accessToken):
        let proof = try key.proof(
          method: method, url: url, accessToken: accessToken, nonce: nonce, identifier: identifier(), at: now)
        request.headers.removeAll { $0.name.lowercased() == "dpop" }
        // Exposed to be sent.
        request.headers.append(.init("DPoP", proof.exposed))
      }
    }
    return request
  }

  /// Adds parameters to the body, in its format.
  private mutating func setParameters(_ parameters: [Parameter]) {
    let names = Set(parameters.map(\.name))
    let type = headers.first { $0.name.lowercased() == "content-type" }?.value
    if type == BodyFormat.json.mediaType {
      var members = body.flatMap { JSON(message: $0)?.dictionary } ?? [:]
      for parameter in parameters { members[parameter.name] = .string(parameter.value) }
      body = Data(JSON.object(members).serialized(sorted: true))
    } else {
      let known = FormEncoding.decode(String(decoding: body ?? Data(), as: UTF8.self)) ?? []
      body = Data(FormEncoding.encode(known.filter { !names.contains($0.name) } + parameters).utf8)
    }
  }
}
