import Foundation
import Grants
import OAuth
import Testing

@testable import GrantdConfiguration
@testable import Providers

@Suite("Tokens that come by the browser, and what else a callback brings")
struct ImplicitTests {
  static let museum = """
    kind = "oauth2"
    client_id = "c"
    authorization_endpoint = "https://museum.example/authorize"
    response_type = "token"
    allow_implicit = true
    scopes = ["read"]

    """

  @Test("The request asks for a token, without anything that is for codes")
  func asks() throws {
    let rig = try SignInRig(Self.museum)
    let traits = rig.provider.authorizationTraits
    #expect(!traits.usesPKCE && traits.responseType == .token && traits.grantKind == .implicit)
    let place = try rig.place([]) { $0.verifier = CodeVerifier(rawValue: Secret(SignInRig.verifier)) }.place
    #expect(
      place.url.parameters == [
        "response_type": "token", "client_id": "c", "redirect_uri": "http://127.0.0.1:4711/callback", "scope": "read",
        "state": "the-state",
      ])
  }

  @Test("A login is claimed by the state in the fragment, and by no other")
  func claims() throws {
    let rig = try SignInRig(Self.museum)
    let login = try rig.login()
    let here = "http://127.0.0.1:4711/callback"
    #expect(rig.claim("\(here)#access_token=t&token_type=bearer&state=the-state", login) == .named)
    #expect(rig.claim("\(here)?state=the-state&error=access_denied", login) == .named)
    #expect(rig.claim("\(here)#access_token=t&state=other", login) == .refused(.wrongState))
    #expect(rig.claim("\(here)#access_token=t", login) == .refused(.missingState))
    #expect(rig.claim("http://127.0.0.1:4711/other#state=the-state", login) == .refused(.wrongAddress))
    #expect(rig.claim("https://elsewhere.example/#access_token=t&state=other", login) == .foreign)
  }

  static let answers: [(String, String)] = [
    ("#access_token=t&token_type=bearer&expires_in=3600&state=the-state", "token t"),
    ("#access_token=t&token_type=bearer&state=other", "wrongState"),
    ("#error_description=The+user+chose&error=access_denied&state=the-state", "denied access_denied"),
    ("#error=access_denied&state=other", "wrongState"),
    ("#error=access_denied", "missingState"),
    ("?error=access_denied&state=the-state", "denied access_denied"),
    ("?error=access_denied&state=the-state#_=_", "denied access_denied"),
    ("?error=access_denied&state=other#_=_", "wrongState"),
    ("?access_token=t&token_type=bearer&state=the-state", "unexpectedToken"),
    ("?code=c&state=the-state", "noToken(\"it has a code, and a token was asked for\")"),
    (
      "#access_token=t&token_type=DPoP&state=the-state",
      "noToken(\"the provider gave a DPoP token, though none was asked for: set dpop = true (RFC 9449 §5)\")"
    ),
  ]

  @Test("A token counts with its state alone, and so does a refusal, wherever it stands", arguments: answers)
  func verdict(end: String, expected: String) throws {
    let rig = try SignInRig(Self.museum)
    #expect(word(try rig.answer("http://127.0.0.1:4711/callback\(end)", try rig.login())) == expected)
  }

  @Test("There is never a refresh token, and what the settings name is kept")
  func kept() throws {
    let rig = try SignInRig(Self.museum + "identity_member = \"account_id\"\naccess_token_lifetime = \"1h\"")
    let end = "#access_token=t&token_type=bearer&account_id=a+1&refresh_token=r&state=the-state"
    guard case .issued(let issued) = try rig.answer("http://127.0.0.1:4711/callback\(end)", try rig.login()).get()
    else {
      Issue.record("no token")
      return
    }
    #expect(issued.tokens.refreshToken == nil)
    #expect((issued.tokens.expiresIn ?? issued.tokens.configuredLifetime) == .seconds(3600))
    #expect(issued.identity == Identity(subject: "a 1"))
  }

  @Test("A token in the fragment is none where codes are asked for")
  func codesOnly() throws {
    let rig = try SignInRig(
      Self.museum.replacing(
        "response_type = \"token\"\nallow_implicit = true", with: "token_endpoint = \"https://m.example/t\""))
    let address = "http://127.0.0.1:4711/callback?code=c&state=the-state#access_token=t&token_type=bearer"
    #expect(word(try rig.answer(address, try rig.login())) == "unexpectedToken")
  }

  // MARK: What stands beside a code

  static let books = """
    kind = "oauth2"
    client_id = "c"
    authorization_endpoint = "https://books.example/authorize"
    token_endpoint = "https://books.example/token"
    keep_callback_members = ["realmId", "other"]

    """

  @Test("QuickBooks: the company's id comes with the callback, goes with the grant, and outlives refreshes")
  func realm() throws {
    let rig = try SignInRig(Self.books)
    let login = try rig.login()
    let address = "http://127.0.0.1:4711/callback?code=c&state=the-state&realmId=4620816365&unknown=1"
    let answer = #"{"access_token":"a","token_type":"bearer","expires_in":3600,"refresh_token":"r"}"#
    let issued = try rig.exchange(address, login, answer).end.get()
    #expect(String(decoding: issued.tokens.extra, as: UTF8.self) == #"{"realmId":"4620816365"}"#)

    var grant = Grant(saved: rig.grant(issued, login), token: nil, jitter: 0)
    guard case .begun(let attempt, _) = grant.beginRefresh(at: SignInRig.start) else {
      Issue.record("no refresh")
      return
    }
    let refreshed = try rig.refresh(grant.saved, answer)
    _ = grant.answered(attempt, refreshed, rotation: .strict, refreshTokenLifetime: nil)
    _ = grant.committed(attempt, jitter: 0)
    #expect(grant.saved.extra.map { String(decoding: $0, as: UTF8.self) } == #"{"realmId":"4620816365"}"#)
  }

  @Test(
    "What is there twice, or is too long, is not kept",
    arguments: ["realmId=1&realmId=2", "realmId=", "realmId=" + String(repeating: "1", count: 1025)])
  func notKept(query: String) throws {
    let rig = try SignInRig(Self.books)
    let address = "http://127.0.0.1:4711/callback?code=c&state=the-state&\(query)"
    let issued = try rig.exchange(address, try rig.login(), #"{"access_token":"a","token_type":"bearer"}"#).end.get()
    #expect(String(decoding: issued.tokens.extra, as: UTF8.self) == "{}")
  }
}
