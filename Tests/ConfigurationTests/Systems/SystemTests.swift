import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import GrantdConfiguration

@Suite("Providers that speak no OAuth: kind = \"vms\" and kind = \"zephr\"")
struct SystemTests {
  static let vms = """
    [provider.cameras]
    kind = "vms"
    base_url = "https://vms.example.com/server"
    redirect_uri = "cameras://sign-in"

    """
  static let zephr = """
    [provider.news]
    kind = "zephr"
    base_url = "https://news.example.com"
    redirect_uri = "news://auth"

    """

  private func system(_ text: String) throws -> SystemSettings {
    let settings = try Fixture().load(text)
    #expect(settings.warnings.isEmpty)
    #expect(settings.providers.isEmpty)
    #expect(settings.allProviders.map(\.name) == settings.systems.map(\.site.name))
    return try #require(settings.systems.first)
  }

  @Test("vms: four lines are enough, and everything that may differ is a key")
  func vmsKeys() throws {
    var site = SiteSettings(
      name: ProviderName(rawValue: "cameras")!, displayName: "cameras",
      baseURL: URL(string: "https://vms.example.com/server")!, redirect: .fixed(try RedirectURI("cameras://sign-in")))
    let standard = VMSSettings(site: site, clientName: "grantd", clientVersion: GrantdVersion.current)
    #expect(standard.language == "en")
    #expect(standard.replacing == nil)
    #expect(try system(Self.vms) == .vms(standard))
    site.displayName = "Cameras"
    site.loginLifetime = .seconds(120)
    site.apiBase = URL(string: "https://api.example.com/v2")
    site.apiOrigins = [URL(string: "https://media.example.com")!]
    var changed = VMSSettings(site: site, clientName: "watch", clientVersion: "24.4")
    changed.language = "de"
    changed.headers = ["X-Tenant": "7"]
    changed.replacing = .offline
    let keys = """
      display_name = "Cameras"
      login_timeout = "2m"
      api_base = "https://api.example.com/v2"
      api_origins = ["https://media.example.com"]
      client_name = "watch"
      client_version = "24.4"
      language = "de"
      headers = { X-Tenant = "7" }
      replace_session = "offline"
      """
    #expect(try system(Self.vms + keys) == .vms(changed))
    let provider = try system(Self.vms + keys).provider
    #expect(provider.description.kind == "vms")
    #expect(provider.description.displayName == "Cameras")
    #expect(
      provider.apiTraits.origins == [
        "https://api.example.com:443", "https://media.example.com:443", "https://vms.example.com:443",
      ])
  }

  @Test("zephr: four lines are enough, and everything that may differ is a key")
  func zephrKeys() throws {
    let site = SiteSettings(
      name: ProviderName(rawValue: "news")!, displayName: "news", baseURL: URL(string: "https://news.example.com")!,
      redirect: .fixed(try RedirectURI("news://auth")))
    let standard = ZephrSettings(site: site)
    #expect([standard.pathPrefix, standard.cookieName] == ["/blaize", "blaize_session"])
    #expect(standard.clientType == "ios")
    #expect(standard.userExistsStatus == 409)
    #expect(standard.emailDomainStatus == 403)
    #expect(standard.logoutReach == .justHere)
    #expect(try system(Self.zephr) == .zephr(standard))
    var changed = standard
    changed.pathPrefix = "/zephr"
    changed.clientType = nil
    changed.identityProviders = ["google", "apple"]
    changed.standardIdentityProvider = "apple"
    changed.cookieName = "session"
    changed.userExistsStatus = 412
    changed.emailDomainStatus = 451
    changed.subjectMembers = ["uid"]
    changed.logoutReach = .everywhere
    changed.redirectParameter = "redirect_uri"
    changed.redirectsWithNonce = true
    let keys = """
      path_prefix = "/zephr"
      client_type = ""
      identity_providers = ["google", "apple"]
      default_identity_provider = "apple"
      session_cookie = "session"
      user_exists_status = 412
      email_domain_status = 451
      subject_members = ["uid"]
      logout_where = "EVERYWHERE"
      redirect_parameter = "redirect_uri"
      nonce_in_redirect = true
      """
    #expect(try system(Self.zephr + keys) == .zephr(changed))
    #expect(try system(Self.zephr + keys).provider.description.kind == "zephr")
  }

  @Test("zephr: where each login tells the redirect URI, the broker's own does")
  func told() throws {
    let text = Self.zephr.replacing("redirect_uri = \"news://auth\"", with: "redirect_parameter = \"redirect_uri\"")
    #expect(try system(text).site.redirect == .loopback(host: .v4, path: "/callback"))
  }

  static let mistakes: [(text: String, complaint: String)] = [
    (
      "[provider.x]\nkind = \"vms\"",
      """
      grantd.toml:1: [provider.x] has no "redirect_uri": write the address that the server sends the browser back to, as \
      it is configured there
      grantd.toml:1: [provider.x] has no "base_url": write where the server is, such as https://vms.example.com
      """
    ),
    (
      vms + "client_id = \"me\"",
      "grantd.toml:5: \"client_id\" in [provider.cameras] is for kind \"oidc\" or \"oauth2\", and this is kind \"vms\": "
        + "remove it"
    ),
    (
      vms + "path_prefix = \"/x\"",
      "grantd.toml:5: \"path_prefix\" in [provider.cameras] is for kind \"zephr\", and this is kind \"vms\": remove it"
    ),
    (
      zephr + "replace_session = \"oldest\"",
      "grantd.toml:5: \"replace_session\" in [provider.news] is for kind \"vms\", and this is kind \"zephr\": remove it"
    ),
    (
      zephr + "scopes = []",
      "grantd.toml:5: \"scopes\" in [provider.news] is for kind \"oidc\" or \"oauth2\", and this is kind \"zephr\": "
        + "remove it"
    ),
    (
      Fixture.provider + "base_url = \"https://x.example\"",
      "grantd.toml:4: \"base_url\" in [provider.work] is for kind \"vms\" or \"zephr\", and this is kind \"oidc\": remove it"
    ),
    (
      vms + "base_uri = \"x\"",
      "grantd.toml:5: unknown key \"base_uri\" in [provider.cameras]: did you mean \"base_url\"?"
    ),
    (
      Fixture.provider + "kind = \"vsm\"",
      "grantd.toml:4: \"kind\" in [provider.work] must be \"oidc\" or \"oauth2\" or \"vms\" or \"zephr\", not \"vsm\": did "
        + "you mean \"vms\"?"
    ),
    (
      vms.replacing("https:", with: "http:"),
      "grantd.toml:3: \"base_url\" in [provider.cameras] must be an https URL without user, query or fragment: use https, "
        + "or set allow_insecure_http for this provider if you must"
    ),
    (
      vms.replacing("/server", with: "/?x=1"),
      "grantd.toml:3: \"base_url\" in [provider.cameras] must be an https URL without user, query or fragment"
    ),
    (
      vms + "replace_session = \"newest\"",
      "grantd.toml:5: \"replace_session\" in [provider.cameras] must be \"oldest\" or \"offline\", not \"newest\""
    ),
    (
      vms + "language = \"de\\ncookie: x\"",
      "grantd.toml:5: \"language\" in [provider.cameras] must be a text of printable ASCII, not one with control characters"
    ),
    (
      vms + "api_origins = [\"https://x.example/path\"]",
      "grantd.toml:5: \"api_origins\" in [provider.cameras] must be https addresses without a path, not "
        + "\"https://x.example/path\""
    ),
    (
      zephr + "path_prefix = \"blaize\"",
      "grantd.toml:5: \"path_prefix\" in [provider.news] must be a path such as \"/blaize\", or an empty text, not "
        + "\"blaize\""
    ),
    (
      zephr + "path_prefix = \"/a/../b\"",
      "grantd.toml:5: \"path_prefix\" in [provider.news] must be a path such as \"/blaize\", or an empty text, not "
        + "\"/a/../b\""
    ),
    (
      zephr + "session_cookie = \"a=b\"",
      "grantd.toml:5: \"session_cookie\" in [provider.news] must be the name of a cookie, not \"a=b\""
    ),
    (
      zephr + "identity_providers = [\"google\"]\ndefault_identity_provider = \"gogle\"",
      "grantd.toml:6: \"default_identity_provider\" in [provider.news] is \"gogle\", which \"identity_providers\" does not "
        + "have: did you mean \"google\"?"
    ),
    (
      zephr + "nonce_in_redirect = true",
      "grantd.toml:5: \"nonce_in_redirect\" in [provider.news] needs \"redirect_parameter\": the server could not know where "
        + "each login ends: add it, such as redirect_parameter = \"redirect_uri\""
    ),
    (
      zephr + "user_exists_status = 403",
      "grantd.toml:5: \"user_exists_status\" and \"email_domain_status\" in [provider.news] are both 403: they tell two "
        + "refusals apart"
    ),
    (
      zephr + "email_domain_status = 401",
      "grantd.toml:5: \"email_domain_status\" in [provider.news] is 401, which means something else in every answer"
    ),
    (
      vms + "client_secret = \"x\"",
      "grantd.toml:5: \"client_secret\" in [provider.cameras] is refused: others may read this file: put it in a file of "
        + "mode 0600 and write client_secret_file, or use client_secret_credential"
    ),
    (
      vms + "[account.robot]\nprovider = \"cameras\"\ngrant = \"client_credentials\"",
      "grantd.toml:6: [account.robot] needs no login, and [provider.cameras] has no grant without a user: remove "
        + "it, and sign in with grantctl login cameras robot"
    ),
  ]

  @Test("A mistake is an error with its line and what to do", arguments: mistakes)
  func complains(text: String, complaint: String) throws {
    let found = try Fixture().complaint(text)
    #expect(found == complaint)
  }

  @Test("Two of one name, whatever their kinds, are one too many")
  func twice() throws {
    let fixture = try Fixture()
    try fixture.write("grantd.d/b.toml", Self.vms.replacing("cameras]", with: "news]"))
    try fixture.write("grantd.toml", Self.zephr)
    #expect(
      fixture.complaint(fixture.sources())
        == "grantd.d/b.toml:1: [provider.news] is there twice: the first is at grantd.toml:1")
  }

  @Test(
    "A redirect URI that cannot work is warned of",
    arguments: [
      ("http://127.0.0.1/x", "", "has a redirect_uri without a port, which the server cannot know"),
      ("http://127.0.0.1/x", "[callback]\nport = 8400\n", nil), ("http://127.0.0.1:8400/x", "", nil),
      ("http://127.0.0.1:8400/x", "[callback]\nenabled = false\n", "and [callback] is off"),
      ("cameras://x", "[callback]\nenabled = false\n", nil),
    ] as [(String, String, String?)])
  func warnings(redirect: String, more: String, warning: String?) throws {
    let text = Self.vms.replacing("cameras://sign-in", with: redirect) + more
    let warnings = try Fixture().load(text).warnings
    #expect(warnings.count == (warning == nil ? 0 : 1))
    #expect(warning == nil || warnings.first?.contains(warning ?? "") == true, "\(warnings)")
  }

  @Test("Plain http is warned of, and so is public_url without an address there; a system's own address is one")
  func addresses() throws {
    let text = Self.vms.replacing("https:", with: "http:") + "allow_insecure_http = true"
    #expect(try Fixture().load(text).warnings.first?.contains("over plain http") == true)
    let callback = "[callback]\nport = 8400\npublic_url = \"https://broker.example.com\"\n"
    let there = Self.vms.replacing("cameras://sign-in", with: "https://broker.example.com/cameras")
    let warnings = try Fixture().load(there + callback).warnings
    #expect(warnings.count == 1 && warnings[0].contains("nothing in its answers names a login"))
    #expect(try Fixture().load(Self.vms + callback).warnings.count == 1)
    #expect(try Fixture().load(there).webAddresses.map(\.rawValue) == ["https://broker.example.com/cameras"])
  }

  @Test("What is copied from the page of each is right, alone and with what follows it", arguments: ["vms", "zephr"])
  func pages(kind: String) throws {
    let page = try String(contentsOfFile: "\(Fixture.package)/docs/providers/\(kind).md", encoding: .utf8)
    let blocks = page.components(separatedBy: "```toml\n").dropFirst().compactMap {
      $0.components(separatedBy: "```").first
    }
    #expect(blocks.count == 2)
    for more in ["", blocks[1]] {
      // The next block replaces the one above it.
      let keys = more.split(separator: "\n").compactMap { $0.split(separator: " ").first }
      let base = blocks[0].split(separator: "\n").filter { line in !keys.contains { line.hasPrefix("\($0) ") } }
      #expect(try system((base + [more[...]]).joined(separator: "\n")).provider.description.kind == kind)
    }
  }
}
