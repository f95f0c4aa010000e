import Foundation
import Grants
import OAuth
import Testing

@Suite("The traits of each provider") struct ProviderTraitsTests {
  @Test("a revocation of the whole grant sends the access token first, any other the refresh token")
  func order() {
    func hints(_ scope: RevocationTraits.Scope, at seconds: Double) -> [String] {
      RevocationTraits(scope: scope).tokens(of: grant(), .session(cookie: "c"), at: at(seconds)).map(\.hint)
    }
    #expect(hints(.token, at: 0) == ["refresh_token", "session"])
    #expect(hints(.client, at: 0) == ["session", "refresh_token"])
    #expect(hints(.token, at: 3600) == ["refresh_token"] && hints(.client, at: 3600) == ["refresh_token"])
  }

  @Test("a revocation that waits ends a later grant of its person, else of its account; never where it ends one token")
  func owner() {
    func grant(_ name: String, _ subject: String?) -> SavedGrant {
      var saved = savedGrant()
      saved.account = AccountName(rawValue: name)!
      saved.identity = subject.map { Identity(subject: $0) }
      return saved
    }
    func ends(_ scope: RevocationTraits.Scope, _ before: SavedGrant, _ after: SavedGrant) -> Bool {
      let traits = RevocationTraits(scope: scope)
      let revocation = PendingRevocation(
        id: "1", provider: providerName, token: Secret("t"), hint: "access_token", context: traits.owner(of: before),
        attempts: 0, retryAt: at(0), expiresAt: at(60))
      return traits.ends(after, by: revocation)
    }
    for (before, after, isEnded) in [
      (grant("work", "ada"), grant("home", "ada"), true), (grant("work", "ada"), grant("work", "bob"), false),
      (grant("work", "ada"), grant("work", nil), true), (grant("work", nil), grant("home", "ada"), false),
    ] {
      #expect(ends(.client, before, after) == isEnded)
      #expect(!ends(.token, before, after))
    }
    #expect(RevocationTraits(scope: .token).owner(of: grant("work", "ada")).isEmpty)
  }

  @Test("a login replaces no refresh token whose revocation would end the login too", arguments: [true, false])
  func replaced(_ endsReplaced: Bool) {
    #expect(RevocationTraits(scope: .token, endsReplaced: endsReplaced).endsReplaced == endsReplaced)
    #expect(!RevocationTraits(scope: .client, endsReplaced: endsReplaced).endsReplaced)
  }

  @Test("a user is another one if the subject differs, or is missing although the provider returns it")
  func person() {
    let (ada, bob) = (Identity(subject: "ada"), Identity(subject: "bob"))
    var naming = TokenTraits()
    naming.namesPerson = true
    for traits in [TokenTraits(), TokenTraits(usesIDTokens: true), naming] {
      #expect(!traits.isAnotherPerson(ada, than: nil) && !traits.isAnotherPerson(ada, than: ada))
      #expect(traits.isAnotherPerson(bob, than: ada))
    }
    #expect(!TokenTraits().isAnotherPerson(nil, than: ada))
    #expect(TokenTraits(usesIDTokens: true).isAnotherPerson(nil, than: ada) && naming.isAnotherPerson(nil, than: ada))
  }

  @Test("openid is asked for wherever there are ID tokens, and once")
  func openID() {
    let traits = TokenTraits(scopes: ["openid", "mail"], usesIDTokens: true)
    #expect(
      traits.scopes(asked: nil, supported: nil) == ["openid", "mail"]
        && traits.scopes(asked: ["mail"], supported: nil) == ["openid", "mail"])
    #expect(TokenTraits(scopes: ["mail"]).scopes(asked: ["files"], supported: nil) == ["files"])
    var optional = TokenTraits(scopes: ["mail"])
    optional.optionalScopes = ["offline_access"]
    for (supported, scopes) in [
      (nil, ["mail"]), (["mail"], ["mail"]), (["offline_access"], ["mail", "offline_access"]),
    ] as [([String]?, [String])] {
      #expect(optional.scopes(asked: nil, supported: supported) == scopes)
      #expect(optional.scopes(asked: ["files"], supported: supported) == ["files"])
    }
  }

  @Test("a caller that exchanges the code itself gets no challenge")
  func challenge() {
    var traits = AuthorizationTraits(redirect: .loopback(host: "h", path: "/"), usesPKCE: true, lifetime: .seconds(1))
    #expect(traits.makesChallenge(exchange: nil) && !traits.makesChallenge(exchange: false))
    traits.exchangesCodes = false
    #expect(!traits.makesChallenge(exchange: nil) && traits.makesChallenge(exchange: true))
    traits.usesPKCE = false
    #expect(!traits.makesChallenge(exchange: true))
  }

  @Test("a loopback address to return to after a logout gets the callback's port, unless it has its own")
  func returnAddress() throws {
    func address(_ text: String?, port: Int?) throws -> String? {
      var traits = LogoutTraits()
      traits.redirectURI = try text.map { try RedirectURI($0) }
      return traits.returnAddress(port: port)?.rawValue
    }
    #expect(try address("http://127.0.0.1/out", port: 4711) == "http://127.0.0.1:4711/out")
    #expect(try address("http://127.0.0.1/out", port: nil) == nil)
    #expect(try address("http://127.0.0.1:80/out", port: 4711) == "http://127.0.0.1:80/out")
    #expect(try address("https://app.example/out", port: nil) == "https://app.example/out")
    #expect(try address(nil, port: 4711) == nil)
  }

  @Test("a path is relative to the API's base, and a token is sent only to permitted origins")
  func resolve() throws {
    let traits = APITraits(
      base: URL(string: "https://api.example/v1/"), origins: [URL(string: "https://files.example")!])
    #expect(try traits.resolve("/me").absoluteString == "https://api.example/v1/me")
    #expect(try traits.resolve("https://files.example/a").absoluteString == "https://files.example/a")
    for text in ["https://other.example/", "http://api.example/v1/me", "https://api.example:8443/", "me"] {
      #expect(throws: Objection.self) { try traits.resolve(text) }
    }
  }
}
