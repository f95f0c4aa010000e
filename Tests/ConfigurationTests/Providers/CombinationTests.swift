import Foundation
import OAuth
import Providers
import TestSupport
import Testing

@testable import GrantdConfiguration

@Suite("Keys of a provider that need or exclude each other")
struct CombinationTests {
  private static let title = "[provider.work]"
  private static let byHand = """
    discovery = false
    authorization_endpoint = "https://a.example/a"
    token_endpoint = "https://a.example/t"

    """
  private static let oauth2 = byHand + "kind = \"oauth2\"\n"

  static let mistakes: [(keys: String, complaint: String)] = [
    (
      oauth2 + "par = \"always\"",
      "8: \"par\" in \(title) needs \"pushed_authorization_request_endpoint\", which is not there: add it, or remove par"
    ),
    (
      oauth2 + "revocation_style = \"bearer\"",
      "8: \"revocation_style\" in \(title) needs \"revocation_endpoint\", which is not there: add it, or remove "
        + "revocation_style"
    ),
    (
      oauth2 + "response_mode = \"jwt\"",
      "8: \"response_mode\" in \(title) needs \"jwks_uri\", which is not there: add it, or remove response_mode"
    ),
    (
      oauth2 + "post_logout_redirect_uri = \"http://127.0.0.1/x\"",
      "8: \"post_logout_redirect_uri\" in \(title) needs \"end_session_endpoint\", which is not there: add it, or "
        + "remove post_logout_redirect_uri"
    ),
    (
      oauth2 + "device_parameters = { a = \"1\" }",
      "8: \"device_parameters\" in \(title) needs \"device_authorization_endpoint\", which is not there: add it, or "
        + "remove device_parameters"
    ),
    (
      oauth2 + "backchannel_logout = true",
      "8: \"backchannel_logout\" in \(title) is of OpenID Connect, and its kind is \"oauth2\": remove it, or write kind "
        + "= \"oidc\" if the provider is one"
    ),
    (
      oauth2 + "max_age = \"1h\"",
      "8: \"max_age\" in \(title) cannot be checked: there are ID tokens with kind \"oidc\" alone: remove it, or write "
        + "kind = \"oidc\" if the provider is one"
    ),
    (
      "dpop = true\nassumed_token_type = \"Bearer\"",
      "5: \"assumed_token_type\" in \(title) is \"Bearer\", and tokens are asked for with dpop: remove one of them"
    ),
    (
      "assumed_token_type = \"DPoP\"",
      "4: \"assumed_token_type\" in \(title) is \"DPoP\", and there is no dpop: set dpop = true"
    ),
    (
      "revoke_replaced = true\nrevocation_style = \"bearer\"\nrevocation_endpoint = \"https://a.example/r\"",
      "4: \"revoke_replaced\" in \(title) is true, and \"revocation_style\" is \"bearer\", which ends the new login too: "
        + "remove one of them"
    ),
    (
      "dpop = true\nrevocation_style = \"bearer\"\nrevocation_endpoint = \"https://a.example/r\"",
      "5: \"revocation_style\" in \(title) is \"bearer\", and tokens with dpop are not bearer tokens: remove one of them"
    ),
    (
      "acr_values = [\"a\"]\nauthorization_parameters = { acr_values = \"b\" }",
      "4: \(title) has \"acr_values\" both as a key and in \"authorization_parameters\": keep one of them"
    ),
    (
      "authorization_parameters = { max_age = \"1\" }",
      "4: \"authorization_parameters\" in \(title): \"max_age\" is set by the broker itself: use max_age in the section "
        + "itself"
    ),
    (
      "token_parameters = { client_assertion = \"x\" }",
      "4: \"token_parameters\" in \(title): \"client_assertion\" is set by the broker itself: remove it"
    ),
    (
      "refresh_headers = { DPoP = \"x\" }",
      "4: \"refresh_headers\" in \(title): \"DPoP\" is set by the broker itself: remove it"
    ),
    (
      "post_logout_redirect_uri = \"here\"",
      "4: \"post_logout_redirect_uri\" in \(title): "
    ),
    (
      "response_mode = \"fragment\"",
      "4: \"response_mode\" in \(title) must be \"jwt\" or \"query.jwt\", not \"fragment\""
    ),
    (
      "claims = [1]",
      "4: \"claims\" in \(title) must be a table, or a text with a JSON object, not a list"
    ),
    (
      "claims = \"{\"",
      "4: \"claims\" in \(title) must be a table, or a text with a JSON object, not one where there is "
    ),
    (
      "claims = \"[]\"",
      "4: \"claims\" in \(title) must be a table, or a text with a JSON object, not one with an array"
    ),
    (
      "authorization_details = [1]",
      "4: \"authorization_details\" in \(title) must be a list of tables, or a text with a JSON array of objects, not a "
        + "list"
    ),
    (
      "authorization_details = [{ at = nan }]",
      "4: \"authorization_details\" in \(title) must be a list of tables, or a text with a JSON array of objects, not "
        + "one with nan"
    ),
    (
      "introspection_endpoint = \"http://a.example/\"",
      "4: \"introspection_endpoint\" in \(title) must be an https URL without user or fragment: use https, or set "
        + "allow_insecure_http for this provider if you must"
    ),
  ]

  @Test("Each is said with file, line and what to do", arguments: mistakes)
  func says(keys: String, complaint: String) throws {
    let found = try Fixture().complaint(Fixture.provider + keys)
    #expect(found.hasPrefix("grantd.toml:\(complaint)"), "\(found)")
    #expect(found.split(separator: "\n").count == 1, "\(found)")
  }

  @Test("a header of the connection is refused, in any spelling", arguments: RequestHeaders.ofConnection)
  func headersOfConnection(_ name: String) throws {
    for name in RequestHeaders.spellings(of: name) {
      let found = try Fixture().complaint(Fixture.provider + "token_headers = { \"\(name)\" = \"x\" }")
      #expect(found.hasPrefix("grantd.toml:4: \"token_headers\" in \(Self.title): \"\(name)\" "), "\(found)")
    }
  }

  @Test("a header that the broker does not set is accepted")
  func otherHeaders() throws {
    let names = RequestHeaders.allowed.filter { !["Accept", "Content-Type"].contains($0) }
    let table = names.map { "\"\($0)\" = \"x\"" }.joined(separator: ", ")
    let settings = try Fixture().load(Fixture.provider + "token_headers = { \(table) }")
    let provider = try #require(settings.providers.first)
    #expect(Set(provider.token.headers.keys) == Set(names))
  }

  @Test("What the metadata may bring needs no key")
  func discovered() throws {
    let keys = """
      par = "always"
      response_mode = "query.jwt"
      post_logout_redirect_uri = "http://127.0.0.1/x"
      device_parameters = { a = "1" }
      max_age = "1h"
      backchannel_logout = true
      dpop = true
      claims = '{"userinfo": {"email": null}}'
      """
    let provider = try #require(try Fixture().load(Fixture.provider + keys).providers.first)
    #expect(provider.authorization.maxAge == 3600)
    #expect(provider.authorization.responseMode == "query.jwt")
    #expect(provider.logout.backchannel)
    #expect(provider.token.dpop)
    #expect(provider.authorization.claims == #"{"userinfo":{"email":null}}"#)
  }

  @Test("Where people sign in elsewhere or by a password, no authorization endpoint is needed")
  func withoutAuthorization() throws {
    let keys = "[provider.work]\nkind = \"oauth2\"\nclient_id = \"c\"\ntoken_endpoint = \"https://a.example/t\"\n"
    for key in ["device_authorization_endpoint = \"https://a.example/d\"", "allow_password = true"] {
      #expect(try Fixture().complaint(keys + key) == "no error")
    }
    #expect(
      try Fixture().complaint(keys)
        == "grantd.toml:1: [provider.work] has no \"authorization_endpoint\": add them, or an issuer for discovery")
  }

  @Test("A revocation is as the section says: parameters of its own, or the access token alone in the header")
  func revocation() throws {
    let keys = "revocation_endpoint = \"https://a.example/revoke\"\n"
    func request(_ more: String, hint: String) throws -> HTTPRequest? {
      let provider = OAuthProvider(try #require(try Fixture().load(Fixture.provider + keys + more).providers.first))
      let metadata = ServerMetadata(
        issuer: "https://login.example.com",
        endpoints: [.revocation: try #require(URL(string: "https://a.example/revoke"))])
      return provider.revocation(of: Secret("t"), hint: hint, context: [:], metadata: metadata)
    }
    let plain = try #require(try request("revocation_parameters = { f = \"7\" }", hint: "refresh_token"))
    #expect(
      String(decoding: plain.body ?? Data(), as: UTF8.self)
        == "token=t&token_type_hint=refresh_token&f=7&client_id=client")
    let bearer = try #require(try request("revocation_style = \"bearer\"", hint: "access_token"))
    #expect(bearer.body == nil)
    #expect(bearer.headers.contains(.init("Authorization", "Bearer t")))
    #expect(try request("revocation_style = \"bearer\"", hint: "refresh_token") == nil)
  }

  @Test("Back-channel logout and no callback endpoint: a warning")
  func backchannel() throws {
    let fixture = try Fixture()
    let keys = "backchannel_logout = true\nredirect_uri = \"https://x.example/\"\n[callback]\nenabled = false"
    #expect(
      try fixture.load(Fixture.provider + keys).warnings.map { $0.replacing("\(fixture.folder)/", with: "") } == [
        "grantd.toml:1: [provider.work] has backchannel_logout, and [callback] is off: no logout reaches the broker"
      ])
  }

  @Test("A redirect URI where the broker's own sign-in addresses are is refused")
  func belowLinks() throws {
    for (uri, isRefused) in [("http://127.0.0.1:8400/go/x", true), ("http://127.0.0.1:8400/gone", false)] {
      let fixture = try Fixture()
      let text = Fixture.provider + "redirect_uri = \"\(uri)\"\n[callback]\nport = 8400\n"
      guard isRefused else {
        _ = try fixture.load(text)
        continue
      }
      #expect {
        try fixture.load(text)
      } throws: {
        "\($0)".contains("the redirect URI of [provider.work] is below /go/")
      }
    }
  }
}
