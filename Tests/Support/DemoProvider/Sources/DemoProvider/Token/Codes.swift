import Crypto
import Foundation

extension Ledger {
  mutating func issueCode(for approved: Approved, at now: Date) -> String {
    let code = "code-\(Base64URL.random())"
    codes.insert(Code(approved: approved, issued: now), for: code)
    return code
  }

  /// The exchange of a code (RFC 6749 §4.1.3, RFC 7636 §4.6). A failure burns it; a second use revokes what it gave.
  mutating func redeem(
    code text: String, redirectURI: String?, verifier: String?, for asking: Asking
  ) throws(OAuthFailure) -> Issued {
    guard let code = codes[text], code.approved.clientID == asking.client.id else {
      throw .invalidGrant("the code is unknown or another client's")
    }
    guard case .fresh = code.state else {
      if case .used(let grant?) = code.state {
        count(.reuse)
        end(grant, because: "code reused")
      }
      throw .invalidGrant("the code was used before; what it gave is revoked")
    }
    codes.update(text) { $0.state = .used(grant: nil) }
    guard asking.now.timeIntervalSince(code.issued) < Limits.codeLifetime else {
      throw .invalidGrant("the code has expired")
    }
    // A native application's code was asked for without one.
    guard code.approved.redirectURI.isEmpty || redirectURI == code.approved.redirectURI else {
      throw .invalidGrant("redirect_uri is not the one of the authorization request")
    }
    do throws(OAuthFailure) {
      try Self.check(verifier: verifier, against: code.approved.challenge)
    } catch {
      if !settings.token.wrongVerifierBurnsCode { codes.update(text) { $0.state = .fresh } }
      throw error
    }
    guard code.approved.jkt == nil || code.approved.jkt == asking.jkt else {
      throw .invalidGrant("the code is bound to another DPoP key")
    }
    let issued = try open(code.approved, for: asking, isRefreshable: true, authenticated: code.issued)
    codes.update(text) { $0.state = .used(grant: issued.grant.id) }
    return issued
  }

  private static func check(verifier: String?, against challenge: String?) throws(OAuthFailure) {
    switch (verifier, challenge) {
    case (nil, nil): return
    case (_?, nil): throw .invalidGrant("code_verifier without a code_challenge before")
    case (nil, _?): throw .invalidGrant("code_verifier is missing")
    case (let verifier?, let challenge?):
      guard (43...128).contains(verifier.utf8.count) else {
        throw .invalidRequest("code_verifier has 43 to 128 characters (RFC 7636 §4.1)")
      }
      guard Base64URL.encode(SHA256.hash(data: Data(verifier.utf8))) == challenge else {
        throw .invalidGrant("code_verifier does not match code_challenge")
      }
    }
  }
}
