import Crypto
import Grants
import OAuth
import Testing

@Suite struct SourceFingerprintTests {
  private func key(_ key: P256.Signing.PrivateKey, kid: String? = nil) throws -> OAuth.SigningKey {
    try OAuth.SigningKey.parse(Secret(key.pemRepresentation), algorithm: nil, kid: kid)
  }

  @Test("Each thing that a source says changes its fingerprint, and the same source has the same one")
  func all() throws {
    let (one, two) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
    let from = account
    let other = AccountName(rawValue: "home")!
    func robot(_ key: OAuth.SigningKey, _ change: (inout JWTBearerSource) -> Void = { _ in }) -> GrantSource {
      var source = JWTBearerSource(key: key, issuer: "robot")
      change(&source)
      return .jwtBearer(source)
    }
    func all() throws -> [GrantSource] {
      try [
        .clientCredentials, robot(key(one)), robot(key(two)), robot(key(one, kid: "k")),
        robot(key(one)) { $0.issuer = "other" }, robot(key(one)) { $0.subject = "alice" },
        robot(key(one)) { $0.audience = "alice" }, robot(key(one)) { $0.lifetime = .seconds(60) },
        robot(key(one)) { $0.scopeInAssertion = true },
        .exchange(ExchangeSource(from: from)), .exchange(ExchangeSource(from: other)),
        .exchange(ExchangeSource(from: from, actor: other)), .exchange(ExchangeSource(from: from, audience: "home")),
        .exchange(ExchangeSource(from: from, requestedTokenType: "home")),
      ]
    }
    let prints = try all().map(\.fingerprint)
    #expect(Set(prints).count == prints.count)
    #expect(try all().map(\.fingerprint) == prints)
  }

  @Test("A stored fingerprint does not change")
  func kept() {
    #expect(GrantSource.clientCredentials.fingerprint == "yL_JZ1Bahl3Fvp0F4pPW-TIBs4zyXOYiV8ZAKnafBhM")
    #expect(
      GrantSource.exchange(ExchangeSource(from: account, audience: "reports")).fingerprint
        == "I-c7eBfrd6o7Z6GIIdZcOV00ufBgTt0eA20fiY7U1EQ")
  }
}
