import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import GrantdConfiguration

@Suite("Keys for how people sign in, and where authorised calls go")
struct SignInKeyTests {
  private static let title = "[provider.work]"
  private static let oauth2 = """
    kind = "oauth2"
    discovery = false
    authorization_endpoint = "https://a.example/a"
    token_endpoint = "https://a.example/t"

    """
  private static let implicit = oauth2 + "response_type = \"token\"\nallow_implicit = true\n"

  static let mistakes: [(keys: String, complaint: String)] = [
    (
      oauth2 + "response_type = \"token\"",
      "8: \"response_type\" in \(title) is \"token\": tokens would come by the browser, which may leak them (RFC "
        + "9700 §2.1.2), and could not be refreshed: leave it out; if the provider has no codes, set allow_implicit = true"
    ),
    (
      "response_type = \"token\"\nallow_implicit = true",
      "4: \"response_type\" in \(title) is \"token\", and its kind is \"oidc\": without a code nothing proves for whom the "
        + "token is: leave it out, or write kind = \"oauth2\" if the provider has nothing else"
    ),
    (
      "response_type = \"id_token\"",
      "4: \"response_type\" in \(title) must be \"code\" or \"token\", not \"id_token\""
    ),
    (
      implicit + "pkce = true",
      "10: \"pkce\" in \(title) makes no sense with response_type = \"token\": remove one of them"
    ),
    (
      implicit + "dpop = true",
      "10: \"dpop\" in \(title) makes no sense with response_type = \"token\": remove one of them"
    ),
    (
      implicit + "jwks_uri = \"https://a.example/k\"\nresponse_mode = \"jwt\"",
      "11: \"response_mode\" in \(title) makes no sense with response_type = \"token\": remove one of them"
    ),
    (
      implicit + "pushed_authorization_request_endpoint = \"https://a.example/p\"\npar = \"always\"",
      "11: \"par\" in \(title) makes no sense with response_type = \"token\": remove one of them"
    ),
    (
      implicit + "pushed_authorization_request_endpoint = \"https://a.example/p\"\nprefill = \"lenient\"",
      "11: \"prefill\" in \(title) makes no sense with response_type = \"token\": remove one of them"
    ),
    (
      implicit + "exchange_code = false",
      "10: \"exchange_code\" in \(title) makes no sense with response_type = \"token\": remove one of them"
    ),
    (
      implicit + "keep_callback_members = [\"realmId\"]",
      "10: \"keep_callback_members\" in \(title) makes no sense with response_type = \"token\": remove one of them"
    ),
    (
      "keep_callback_members = [\"realmId\", \"access_token\"]",
      "4: \"keep_callback_members\" in \(title) has \"access_token\", which is the broker's own"
    ),
    (
      "identity_member = \"account_id\"",
      "4: \"identity_member\" in \(title) is of plain OAuth: with kind \"oidc\" the ID token says who signed in: remove it"
    ),
    (
      "native_apps = [\"rides\"]",
      "4: \"native_apps\" in \(title) must be a list of tables with app and url, not one with one with a text"
    ),
    ("native_apps = [{ app = \"a\" }]", "4: \"native_apps\" in \(title): a table has no \"url\""),
    (
      "native_apps = [{ app = \"a\", uri = \"x:/\" }]",
      "4: \"native_apps\" in \(title): unknown member \"uri\"; known are app, url, style: did you mean \"url\"?"
    ),
    (
      "native_apps = [{ app = \"a\", url = \"x:/\", style = \"dropbux\" }]",
      "4: \"native_apps\" in \(title): \"style\" must be \"oauth2\" or \"dropbox\", not \"dropbux\": did you mean "
        + "\"dropbox\"?"
    ),
    (
      "native_apps = [{ app = \"a\", url = \"x:/\" }, { app = \"a\", url = \"y:/\" }]",
      "4: \"native_apps\" in \(title): the application \"a\" is there twice"
    ),
    (
      oauth2 + "native_apps = [{ app = \"a\", url = \"https://a.example/\", style = \"dropbox\" }]",
      "8: \"native_apps\" in \(title): the application \"a\" cannot be opened by \"https://a.example/\": write a scheme of "
        + "its own, and no query, such as dbapi-2://1/connect"
    ),
    (
      "native_apps = [{ app = \"a\", url = \"x:/\", style = \"dropbox\" }]",
      "4: \"native_apps\" in \(title) has an application with style \"dropbox\", and kind \"oidc\": remove one of them"
    ),
    (
      "bridge = [{ scheme = \"https\", forward = \"https://a.example/\" }]",
      "4: \"bridge\" in \(title): \"https\" is not a scheme of an application: write it as fb1234567890"
    ),
    (
      "bridge = [{ scheme = \"fb:1\", forward = \"https://a.example/\" }]",
      "4: \"bridge\" in \(title): \"fb:1\" is not a scheme of an application: write it as fb1234567890"
    ),
    (
      "bridge = [{ scheme = \"fb1\", forward = \"https://a.example/?x=1\" }]",
      "4: \"bridge\" in \(title): \"https://a.example/?x=1\" is not an https URL without user, query and fragment"
    ),
    (
      "bridge = [{ scheme = \"fb1\", forward = \"http://a.example/\" }]",
      "4: \"bridge\" in \(title): forward must be an https URL: use https, or set allow_insecure_http for this provider if "
        + "you must"
    ),
    (
      "bridge = [{ scheme = \"fb1\", forward = \"https://a.example/\", in_query = { state = \"x\" } }]",
      "4: \"bridge\" in \(title): \"state\" is set by the broker itself: remove it"
    ),
    (
      "redirect_uri = \"FB1:/cb\"\nbridge = [{ scheme = \"fb1\", forward = \"https://a.example/\" }]",
      "5: \"bridge\" in \(title) has the scheme of its redirect_uri, \"fb1\": no answer would reach the broker"
    ),
    (
      oauth2 + "prefill = \"lenient\"",
      "8: \"prefill\" in \(title) needs \"pushed_authorization_request_endpoint\", which is not there: add it, or remove "
        + "prefill"
    ),
    (
      "prefill = \"yes\"",
      "4: \"prefill\" in \(title) must be \"lenient\" or \"strict\", not \"yes\""
    ),
    (
      "native_prompts = [\"consent\"]\npar = \"always\"",
      "4: \"native_prompts\" in \(title) cannot be: one request, prompt and all, is for the browser and the applications "
        + "alike: remove one of them"
    ),
    (
      "allowed_prompts = [\"login\"]\nnative_prompts = [\"consent\"]",
      "5: \"native_prompts\" in \(title) has \"consent\", which \"allowed_prompts\" does not"
    ),
    (
      "api_base = \"http://a.example/\"",
      "4: \"api_base\" in \(title) must be an https URL without user, query or fragment, not \"http://a.example/\""
    ),
    (
      "api_base = \"https://a.example/?x=1\"",
      "4: \"api_base\" in \(title) must be an https URL without user, query or fragment, not \"https://a.example/?x=1\""
    ),
    (
      "api_origins = [\"https://a.example/path\"]",
      "4: \"api_origins\" in \(title) must be https addresses without a path, not \"https://a.example/path\""
    ),
    (
      "api_errors = { missing_scope = \"login\" }",
      "4: \"api_errors\" in \(title) needs \"api_error_path\", which is not there: add it, or remove api_errors"
    ),
    (
      "api_error_path = [\"error\"]\napi_errors = { missing_scope = \"logon\" }",
      "5: \"api_errors\" in \(title): \"missing_scope\" must be \"refresh\" or \"login\" or \"blocked\", not \"logon\": did "
        + "you mean \"login\"?"
    ),
  ]

  @Test("Each mistake is said with file, line and what to do", arguments: mistakes)
  func says(keys: String, complaint: String) throws {
    let found = try Fixture().complaint(Fixture.provider + keys)
    #expect(found.hasPrefix("grantd.toml:\(complaint)"), "\(found)")
    #expect(found.split(separator: "\n").count == 1, "\(found)")
  }

  @Test(
    "What a browser would run opens no application",
    arguments: ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "http://a.example/", "x:/#f", "x"])
  func openers(url: String) throws {
    let found = try Fixture().complaint(Fixture.provider + "native_apps = [{ app = \"a\", url = \"\(url)\" }]")
    #expect(
      found.hasPrefix("grantd.toml:4: \"native_apps\" in \(Self.title): the application \"a\" cannot be opened by "))
  }

  @Test("All of it, as it is written")
  func written() throws {
    let keys = """
      exchange_code = false
      one_login_at_a_time = true
      code_over_error = true
      keep_callback_members = ["realmId"]
      allowed_prompts = ["login", "consent"]
      native_prompts = []
      native_apps = [{ app = "b", url = "x://1/y" }, { app = "a", url = "http://127.0.0.1:1/z?q=1", style = "oauth2" }]
      prefill = "strict"
      par_beside_parameters = true
      bridge = [{ scheme = "FB1", forward = "http://127.0.0.1:2/f", in_query = { a = "1" }, in_fragment = { a = "2" } }]
      api_base = "https://api.example/v1"
      api_origins = ["https://files.example", "http://[::1]:3/"]
      api_error_path = ["error", ".tag"]
      api_errors = { a = "refresh", b = "login", c = "blocked" }
      """
    let settings = try #require(try Fixture().load(Fixture.provider + keys).providers.first)
    var signIn = SignInSettings()
    signIn.exchangesCodes = false
    signIn.isOneAtATime = true
    signIn.takesCodeFirst = true
    signIn.keepCallbackMembers = ["realmId"]
    signIn.prompts = ["login", "consent"]
    signIn.native.prompts = []
    signIn.native.apps = [
      NativeApp(name: "b", url: try #require(URL(string: "x://1/y"))),
      NativeApp(name: "a", url: try #require(URL(string: "http://127.0.0.1:1/z?q=1"))),
    ]
    signIn.prefill = .strict
    signIn.staysInFront = true
    signIn.bridges = [
      SignInBridge(
        scheme: "fb1", forward: try #require(URL(string: "http://127.0.0.1:2/f")), inQuery: ["a": "1"],
        inFragment: ["a": "2"])
    ]
    #expect(settings.signIn == signIn)
    #expect(settings.api.errorPath == ["error", ".tag"])
    #expect(settings.api.errors == ["a": .refresh, "b": .login, "c": .blocked])
    #expect(
      OAuthProvider(settings).apiTraits.origins == [
        "https://api.example:443", "https://files.example:443", "http://[::1]:3",
      ])
  }

  @Test("An authorization parameter without a text takes back the profile's")
  func takenBack() throws {
    let keys = "[provider.x]\nprofile = \"dropbox\"\nclient_id = \"c\"\n"
    let rig = try SignInRig(
      String(keys.dropFirst("[provider.x]\n".count)) + "authorization_parameters = { disable_signup = \"\" }")
    let asked = try rig.place([]) { $0.parameters = ["empty": ""] }.place.url.parameters
    #expect(asked["disable_signup"] == nil && asked["token_access_type"] == "offline" && asked["empty"] == "")
  }

  @Test("Where tokens come by the browser no token endpoint is needed")
  func withoutTokenEndpoint() throws {
    #expect(try SignInRig(ImplicitTests.museum).provider.settings.signIn.isImplicit)
  }
}
