import Crypto
import Foundation
import NIOHTTP1
import Synchronization

extension Provider {
  /// The thumbprint of the key that the request proves to have (RFC 9449 §4.3); nil without a proof, or where proofs
  /// are not looked at. `accessToken` is the one presented with it at a resource.
  func proof(of turn: Turn, accessToken: String? = nil) throws(OAuthFailure) -> String? {
    let settings = ledger.withLock { $0.settings.dpop }
    let headers = turn.request.headers["dpop"]
    guard settings.mode != .ignored else { return nil }
    guard let text = headers.first else {
      guard settings.mode != .required || turn.place == .par, accessToken == nil else {
        throw .invalidProof("there is no DPoP proof")
      }
      return nil
    }
    do throws(OAuthFailure) {
      guard headers.count == 1, let proof = CompactJWT(text) else { throw .invalidProof("it is not one JWT") }
      let thumbprint = try signer(of: proof)
      try check(proof, turn, accessToken: accessToken)
      try ledger.withLock { ledger throws(OAuthFailure) in
        let identifier = proof.claims["jti"]?.string ?? ""
        guard !identifier.isEmpty, ledger.use(identifier: "proof \(identifier)") else {
          throw .invalidProof("its jti is missing or was used before")
        }
        guard !settings.nonce.covers(turn.place) || ledger.accepts(nonce: proof.claims["nonce"]?.string) else {
          ledger.count(.nonceRefused)
          throw OAuthFailure(code: OAuthFailure.nonceNeeded, description: "the proof needs the server's nonce")
        }
        ledger.count(.proof)
      }
      return thumbprint
    } catch {
      if error.code != OAuthFailure.nonceNeeded { ledger.withLock { $0.count(.proofRefused) } }
      throw error
    }
  }

  private func signer(of proof: CompactJWT) throws(OAuthFailure) -> String {
    guard proof.header["typ"] == "dpop+jwt" else { throw .invalidProof("its typ is not dpop+jwt") }
    guard let jwk = proof.header["jwk"], jwk["d"] == nil, jwk["k"] == nil, let thumbprint = thumbprint(of: jwk) else {
      throw .invalidProof("its jwk is no public key")
    }
    guard proof.verifies(by: [jwk]) else { throw .invalidProof("its signature is wrong") }
    return thumbprint
  }

  private func check(_ proof: CompactJWT, _ turn: Turn, accessToken: String?) throws(OAuthFailure) {
    guard proof.claims["htm"]?.string == turn.request.method.rawValue else {
      throw .invalidProof("its htm is another method")
    }
    guard proof.claims["htu"]?.string == issuer + turn.request.path else {
      throw .invalidProof("its htu is another address, or has a query")
    }
    guard let issued = proof.claims["iat"]?.number,
      abs(issued - turn.now.timeIntervalSince1970) <= Limits.proofAge
    else { throw .invalidProof("its iat is missing or too far off") }
    guard let accessToken else { return }
    let hash = Base64URL.encode(SHA256.hash(data: Data(accessToken.utf8)))
    guard proof.claims["ath"]?.string == hash else { throw .invalidProof("its ath is not the access token's") }
  }

  /// The nonce that the answer brings; nil where none is needed.
  func nextNonce(at place: DemoServer.Fault.Place) -> String? {
    ledger.withLock { ledger in
      guard ledger.settings.dpop.nonce.covers(place) else { return nil }
      switch ledger.settings.dpop.nonceRotation {
      case .manual: return ledger.currentNonce
      case .eachUse:
        let nonce = "nonce-\(Base64URL.random())"
        ledger.nonces.insert(true, for: nonce)
        return nonce
      }
    }
  }
}

extension Ledger {
  fileprivate mutating func accepts(nonce: String?) -> Bool {
    guard let nonce else { return false }
    switch settings.dpop.nonceRotation {
    case .manual: return nonce == currentNonce
    case .eachUse:
      let isGood = nonces[nonce] ?? false
      nonces.update(nonce) { $0 = false }
      return isGood
    }
  }

  /// Every nonce given so far is no longer good. The new one.
  mutating func rotateNonce() -> String {
    nonces = BoundedMap(capacity: Limits.nonces)
    currentNonce = "nonce-\(Base64URL.random())"
    return currentNonce
  }
}

extension DemoServer.Settings.DPoP.Nonce {
  fileprivate func covers(_ place: DemoServer.Fault.Place) -> Bool {
    let isToken = DemoServer.Fault.Place.tokens.contains(place) || place == .par
    let isResource = place == .userinfo || place == .resource
    return switch self {
    case .none: false
    case .token: isToken
    case .resource: isResource
    case .both: isToken || isResource
    }
  }
}

extension OAuthFailure {
  static let nonceNeeded = "use_dpop_nonce"

  fileprivate static func invalidProof(_ description: String) -> Self {
    .init(code: "invalid_dpop_proof", description: "the DPoP proof is refused: \(description)")
  }
}

extension Response {
  /// The demand for a nonce, as the token endpoint or a resource makes it (RFC 9449 §8, §9).
  static func nonceNeeded(at place: DemoServer.Fault.Place) -> Self {
    let failure = OAuthFailure(code: OAuthFailure.nonceNeeded, description: "the proof needs the server's nonce")
    guard place == .userinfo || place == .resource else { return .failure(failure) }
    return .challenge("DPoP", failure)
  }
}
