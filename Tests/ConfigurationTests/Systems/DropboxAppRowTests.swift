import Foundation
import Grants
import OAuth
import Testing

@testable import GrantdConfiguration
@testable import Providers

/// The rows of Dropbox's table that are about its own application.
@Suite("Dropbox's application, row by row")
struct DropboxAppRowTests {
  static let inApp = OpenedDestination(kind: "native", app: "dropbox")

  private func rig(_ more: String = "") throws -> SignInRig { try DropboxRowTests().rig(more) }

  @Test("app URL, token: key, empty secret and the nonce, under both schemes")
  func tokenURL() throws {
    let natives = try rig(DropboxRowTests.implicit).place().place.natives
    let query = "?k=KEY&s=&state=oauth2:the-state"
    #expect(
      natives.map(\.url.absoluteString) == ["dbapi-2://1/connect\(query)", "dbapi-8-emm://1/connect\(query)"])
  }

  @Test("app URL, code: the challenge is the state, and stands in extra_query_params with what is asked")
  func codeURL() throws {
    let state = "?k=KEY&s=&state=oauth2code:\(SignInRig.challenge):S256:"
    let extra =
      "&extra_query_params=code_challenge%3D\(SignInRig.challenge)%26code_challenge_method%3DS256%26response_type%3Dcode"
    let offline = try rig().place().place.natives[0].url.absoluteString
    #expect(offline == "dbapi-2://1/connect\(state)offline\(extra)%26token_access_type%3Doffline")
    let online = try rig("authorization_parameters = { token_access_type = \"online\" }").place().place.natives[1]
    #expect(online.url.absoluteString == "dbapi-8-emm://1/connect\(state)\(extra)")
    let scoped = try rig().place([]) { $0.scopes = ["a.read", "b.write"] }.place.natives[0].url
    #expect(scoped.parameters["extra_query_params"]?.hasSuffix("&scope=a.read%20b.write") == true)
    // Without a challenge the application gives no code.
    #expect(try rig().place([]) { $0.verifier = nil }.place.natives.isEmpty)
  }

  static let appTokens: [(String, String)] = [
    ("?oauth_token=&oauth_token_secret=t&uid=7&state=oauth2:the-state", "token t"),
    ("?oauth_token=k&oauth_token_secret=t&uid=7&state=oauth2%3Athe-state", "token t"),
    ("?oauth_token=&oauth_token_secret=t&uid=7&state=oauth2:other", "wrongState"),
    ("?oauth_token=&oauth_token_secret=t&uid=7&state=the-state", "wrongState"),
    ("?oauth_token=&oauth_token_secret=t&uid=7", "missingState"),
    ("?oauth_token=&oauth_token_secret=t&state=oauth2:the-state&state=oauth2:the-state", "missingState"),
    ("?oauth_token=&state=oauth2:the-state", "noToken(\"oauth_token_secret is not there\")"),
  ]

  @Test("app token callback: the nonce must match", arguments: appTokens)
  func appToken(query: String, expected: String) throws {
    let rig = try rig(DropboxRowTests.implicit)
    let (address, login) = ("db-KEY://1/connect\(query)", try rig.login())
    #expect(word(try rig.answer(address, login)) == expected)
    let claim = rig.claim(address, login)
    switch expected {
    case "wrongState": #expect(claim == .refused(.wrongState))
    case "missingState": #expect(claim == .refused(.missingState))
    default: #expect(claim == .named)
    }
  }

  static let appCodes: [(String, String)] = [
    ("?oauth_code=C&state=\(DropboxRowTests.codeState)", "code C"),
    ("?oauth_token=oauth2code:&oauth_token_secret=C&state=\(DropboxRowTests.codeState)", "code C"),
    ("?code=A&oauth_code=B&oauth_token=oauth2code:&oauth_token_secret=C&state=\(DropboxRowTests.codeState)", "code A"),
    ("?oauth_code=B&oauth_token=oauth2code:&oauth_token_secret=C&state=\(DropboxRowTests.codeState)", "code B"),
    ("?oauth_token=&oauth_token_secret=C&state=\(DropboxRowTests.codeState)", "unexpectedToken"),
    ("?oauth_token=oauth2code:x&oauth_token_secret=C&state=\(DropboxRowTests.codeState)", "unexpectedToken"),
    ("?state=\(DropboxRowTests.codeState)", "neitherCodeNorError"),
    ("?oauth_code=C&state=oauth2:the-state", "wrongState"),
    ("?oauth_code=C&state=\(DropboxRowTests.codeState)x", "wrongState"),
    ("?error=access_denied&state=\(DropboxRowTests.codeState)", "denied access_denied"),
  ]

  @Test("app code callback: code, then oauth_code, then the secret only where it is marked as one", arguments: appCodes)
  func appCode(query: String, expected: String) throws {
    let rig = try rig()
    #expect(word(try rig.answer("db-KEY://1/connect\(query)", try rig.login())) == expected)
  }

  @Test(
    "app code callback: a code is never stored as a token",
    arguments: [
      "?oauth_code=C&oauth_token_secret=C&state=oauth2:the-state",
      "?oauth_token=oauth2code:&oauth_token_secret=C&state=oauth2:the-state",
      "?oauth_token=oauth2code:x&oauth_token_secret=C&state=oauth2:the-state",
      "?code=C&oauth_token=&oauth_token_secret=C&state=oauth2:the-state",
    ])
  func noCodeAsToken(query: String) throws {
    let rig = try rig(DropboxRowTests.implicit)
    let answer = word(try rig.answer("db-KEY://1/connect\(query)", try rig.login()))
    #expect(answer == "noToken(\"it has a code, and a token was asked for\")")
  }

  static let cancels: [(String, OpenedDestination?, CallbackClaim)] = [
    ("db-KEY://1/cancel", inApp, .unnamed), ("db-KEY://1/", inApp, .unnamed), ("db-KEY://1", inApp, .unnamed),
    ("db-KEY://1/connectX", inApp, .unnamed), ("db-KEY://1/cancel?state=\(DropboxRowTests.codeState)", nil, .named),
    ("db-KEY://1/cancel?state=other", inApp, .refused(.wrongState)),
    ("db-KEY://1/cancel", nil, .refused(.cancelledSomewhere)),
    ("db-KEY://1/cancel", OpenedDestination(kind: "browser", app: nil), .refused(.cancelledSomewhere)),
    ("db-KEY://1:80/cancel", inApp, .foreign), ("db-KEY://u@1/cancel", inApp, .foreign),
    ("db-KEY://11/cancel", inApp, .foreign), ("db-KEYS://1/cancel", inApp, .foreign),
  ]

  @Test("app cancel: it ends the login that was opened there, and no other", arguments: cancels)
  func cancel(address: String, opened: OpenedDestination?, claim: CallbackClaim) throws {
    let rig = try rig()
    let login = try rig.login(opened: opened)
    #expect(rig.claim(address, login) == claim)
    if claim == .unnamed || claim == .named { #expect(word(try rig.answer(address, login)) == "cancelled") }
  }
}
