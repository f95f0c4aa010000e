import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import GrantdConfiguration

@Suite("Accounts that the configuration declares")
struct AccountTests {
  private let fixture: Fixture

  init() throws {
    fixture = try Fixture()
    try fixture.write("secret", "s3cret", mode: 0o600)
    try fixture.write("key", TestKey.pem, mode: 0o600)
    try fixture.write("google.json", TestKey.googleServiceAccount, mode: 0o600)
  }

  private func text(_ section: String) -> String {
    (Fixture.provider + "client_secret_file = \"DIR/secret\"\n" + section).replacing("DIR", with: fixture.folder)
  }

  private func source(_ section: String) throws -> GrantSource {
    try #require(try fixture.load(text(section)).accounts.first?.source)
  }

  private func key(kid: String? = nil) throws -> SigningKey {
    try SigningKey.parse(Secret(TestKey.pem), algorithm: nil, kid: kid)
  }

  @Test("The client's own account: scopes and resource are the account's, else the provider's")
  func clientCredentials() throws {
    let settings = try fixture.load(
      text(
        """
        [account.plain]
        provider = "work"
        grant = "client_credentials"
        [account."a@b.example"]
        provider = "work"
        grant = "client_credentials"
        scopes = ["read"]
        resource = "https://api.example.com"
        """))
    let provider = try #require(ProviderName(rawValue: "work"))
    #expect(
      settings.accounts == [
        DeclaredAccount(
          name: try #require(AccountName(rawValue: "plain")), provider: provider, source: .clientCredentials),
        DeclaredAccount(
          name: try #require(AccountName(rawValue: "a@b.example")), provider: provider, source: .clientCredentials,
          scopes: ["read"], resource: "https://api.example.com"),
      ])
  }

  @Test("A service account: every word of the assertion is a key (RFC 7523 §3)")
  func jwtBearer() throws {
    let found = try source(
      """
      [account.robot]
      provider = "work"
      grant = "jwt_bearer"
      key_file = "DIR/key"
      key_id = "k"
      algorithm = "ES256"
      issuer = "robot@example.com"
      subject = "person@example.com"
      audience = "https://login.example.com"
      assertion_lifetime = "5m"
      scope_in_assertion = true
      """)
    #expect(
      found
        == .jwtBearer(
          JWTBearerSource(
            key: try key(kid: "k"), issuer: "robot@example.com", subject: "person@example.com",
            audience: "https://login.example.com", lifetime: .seconds(300), scopeInAssertion: true)))
  }

  @Test("Google's JSON says who asserts, for whom, with which key, and has the scopes in the assertion")
  func google() throws {
    let section = """
      [account.robot]
      provider = "work"
      grant = "jwt_bearer"
      key_file = "DIR/google.json"

      """
    #expect(
      try source(section)
        == .jwtBearer(
          JWTBearerSource(
            key: try key(kid: "key-1"), issuer: "robot@project.iam.gserviceaccount.com",
            audience: "https://oauth2.googleapis.com/token", scopeInAssertion: true)))
    let own = try source(section + "key_id = \"k\"\nissuer = \"i\"\naudience = \"a\"\nscope_in_assertion = false")
    #expect(
      own == .jwtBearer(JWTBearerSource(key: try key(kid: "k"), issuer: "i", audience: "a", scopeInAssertion: false)))
  }

  @Test("A service account at a provider of service accounts alone needs no client")
  func withoutClient() throws {
    let provider = "[provider.google]\nkind = \"oauth2\"\ntoken_endpoint = \"https://oauth2.googleapis.com/token\"\n"
    let robot = """
      [account.robot]
      provider = "google"
      grant = "jwt_bearer"
      key_file = "\(fixture.folder)/google.json"

      """
    let settings = try fixture.load(provider + robot)
    #expect(settings.providers.first?.client.id == "")
    let missing =
      "grantd.toml:1: [provider.google] has no \"client_id\": register a client at the provider, and write its id here"
    #expect(try fixture.complaint(provider) == missing)
    let exchange = "[account.x]\nprovider = \"google\"\ngrant = \"token_exchange\"\nfrom = \"robot\"\n"
    #expect(try fixture.complaint(provider + robot + exchange) == missing)
  }

  @Test("Where accounts need nobody, no authorization endpoint is needed")
  func withoutAuthorization() throws {
    let provider = """
      [provider.api]
      kind = "oauth2"
      token_endpoint = "https://login.example.com/token"
      client_id = "c"
      client_secret_file = "\(fixture.folder)/secret"

      """
    let account = "[account.a]\nprovider = \"api\"\ngrant = \"client_credentials\"\n"
    #expect(try fixture.complaint(provider + account) == "no error")
    #expect(
      try fixture.complaint(provider)
        == "grantd.toml:1: [provider.api] has no \"authorization_endpoint\": add them, or an issuer for discovery")
  }

  @Test("A traded token: from whom, for whom, of what kind (RFC 8693 §2.1)")
  func exchange() throws {
    let found = try source(
      """
      [account.archive]
      provider = "work"
      grant = "token_exchange"
      from = "alice"
      actor = "robot"
      audience = "archive"
      requested_token_type = "urn:ietf:params:oauth:token-type:access_token"
      """)
    #expect(
      found
        == .exchange(
          ExchangeSource(
            from: try #require(AccountName(rawValue: "alice")), actor: AccountName(rawValue: "robot"),
            audience: "archive", requestedTokenType: "urn:ietf:params:oauth:token-type:access_token")))
  }

  @Test("Accounts and their providers may be in different files; an account is there once")
  func files() throws {
    try fixture.write("grantd.toml", "[account.a]\nprovider = \"work\"\ngrant = \"client_credentials\"\n")
    try fixture.write("grantd.d/1.toml", text(""))
    #expect(try Settings.load(fixture.sources()).accounts.count == 1)
    try fixture.write("grantd.d/2.toml", "[account.a]\nprovider = \"work\"\ngrant = \"client_credentials\"\n")
    #expect(
      fixture.complaint(fixture.sources())
        == "grantd.d/2.toml:1: [account.a] is there twice: the first is at grantd.toml:1")
  }

  static let mistakes: [(section: String, complaint: String)] = [
    ("[account.a]\ngrant = \"client_credentials\"", "5: [account.a] has no \"provider\""),
    ("[account.a]\nprovider = \"work\"", "5: [account.a] has no \"grant\""),
    (
      "[account.a]\nprovider = \"wrok\"\ngrant = \"client_credentials\"",
      "6: [account.a] is of [provider.wrok], which is not there: did you mean \"work\"?"
    ),
    (
      "[account.a]\nprovider = \"work\"\ngrant = \"password\"",
      "7: \"grant\" in [account.a] must be \"client_credentials\" or \"jwt_bearer\" or \"token_exchange\", not "
        + "\"password\""
    ),
    (
      "[account.\"a b\"]\nprovider = \"work\"",
      "5: \"a b\" is not a name for an account: use 1 to 128 characters of A-Z a-z 0-9 . _ @ + -"
    ),
    (
      "[account]\nprovider = \"work\"",
      "6: \"provider\" in [account] must be a table: accounts are written as [account.NAME]"
    ),
    (
      "[account.a]\nprovider = \"work\"\ngrant = \"client_credentials\"\nsubject = \"x\"",
      "8: \"subject\" in [account.a] has no use with grant = \"client_credentials\": remove it"
    ),
    (
      "[account.a]\nprovider = \"work\"\ngrant = \"jwt_bearer\"\nfrom = \"x\"\nkey_file = \"DIR/google.json\"",
      "8: \"from\" in [account.a] has no use with grant = \"jwt_bearer\": remove it"
    ),
    (
      "[account.a]\nprovider = \"work\"\ngrant = \"jwt_bearer\"",
      "5: [account.a] has no key to sign with: add key_file or key_credential"
    ),
    (
      "[account.a]\nprovider = \"work\"\ngrant = \"jwt_bearer\"\nkey_file = \"DIR/key\"",
      "5: [account.a] has no \"issuer\": write who asserts, as the provider knows it"
    ),
    (
      "[account.a]\nprovider = \"work\"\ngrant = \"token_exchange\"",
      "5: [account.a] has no \"from\": name the account whose token is traded"
    ),
    (
      "[account.a]\nprovider = \"work\"\ngrant = \"token_exchange\"\nfrom = \"a\"",
      "8: \"from\" in [account.a] is the account itself"
    ),
    (
      "[account.a]\nprovider = \"work\"\ngrant = \"client_credentials\"\nscops = []",
      "8: unknown key \"scops\" in [account.a]: did you mean \"scopes\"?"
    ),
  ]

  @Test("Each mistake is said with file, line and what to do", arguments: mistakes)
  func says(section: String, complaint: String) throws {
    #expect(try fixture.complaint(text(section)) == "grantd.toml:\(complaint)")
  }

  @Test("Tokens that are traded in a circle would never be had")
  func circle() throws {
    func account(_ name: String, from: String) -> String {
      "[account.\(name)]\nprovider = \"work\"\ngrant = \"token_exchange\"\nfrom = \"\(from)\"\n"
    }
    let complaint = try fixture.complaint(text(account("a", from: "b") + account("b", from: "a")))
    #expect(
      complaint.split(separator: "\n") == [
        "grantd.toml:8: [account.a] is traded for a token of its own, in a circle",
        "grantd.toml:12: [account.b] is traded for a token of its own, in a circle",
      ])
    #expect(try fixture.complaint(text(account("a", from: "b") + account("b", from: "alice"))) == "no error")
  }

  @Test("A public client has no account of its own (RFC 6749 §4.4)")
  func publicClient() throws {
    let section = "[account.a]\nprovider = \"work\"\ngrant = \"client_credentials\""
    #expect(
      try fixture.complaint(Fixture.provider + section)
        == "grantd.toml:5: [account.a] has grant = \"client_credentials\", and the client of [provider.work] proves "
        + "itself by nothing (RFC 6749 §4.4): give the provider a client_secret_file, a client_key_file or a "
        + "tls_certificate_file")
  }
}
