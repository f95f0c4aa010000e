import Broker
import BrokerAPI
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import GrantdConfiguration

@Suite struct SettingsTests {
  @Test("Each key of a provider arrives where it belongs")
  func provider() throws {
    let fixture = try Fixture()
    try fixture.write("secret", "s3cret\n", mode: 0o600)
    let settings = try fixture.load(
      """
      [provider.work]
      kind = "oauth2"
      display_name = "Work"
      issuer = "https://login.example.com"
      issuer_rule = "entra_tenant"
      discovery = "oauth"
      authorization_endpoint = "https://login.example.com/a"
      token_endpoint = "https://login.example.com/t"
      refresh_endpoint = "https://login.example.com/r"
      jwks_uri = "https://login.example.com/k"
      userinfo_endpoint = "https://login.example.com/u"
      revocation_endpoint = "http://127.0.0.1:8080/v"
      introspection_endpoint = "https://login.example.com/i"
      end_session_endpoint = "https://login.example.com/e"
      pushed_authorization_request_endpoint = "https://login.example.com/p"
      device_authorization_endpoint = "https://login.example.com/d"
      registration_endpoint = "https://login.example.com/reg"
      client_id = "client"
      client_secret_file = "\(fixture.folder)/secret"
      token_endpoint_auth_method = "client_secret_basic_raw"
      scopes = ["a", "b"]
      scope_separator = " "
      answered_scope_separator = ","
      resource = "https://api.example.com"
      redirect_uri = "de.example:/cb"
      pkce = false
      prompt = "login consent"
      acr_values = ["gold", "silver"]
      ui_locales = ["de"]
      claims = { id_token = { acr = { essential = true, values = ["a", 1, 1.5] } } }
      authorization_details = [{ type = "t", actions = ["read"] }]
      par = "always"
      allow_password = true
      authorization_parameters = { a = "1" }
      device_parameters = { e = "5" }
      token_parameters = { b = "2" }
      refresh_parameters = { c = "3" }
      token_headers = { X-D = "4" }
      refresh_headers = { X-E = "6" }
      body_format = "json"
      accept_form_response = true
      token_path = ["authed_user"]
      token_path_in_refresh = []
      keep_members = ["realmId"]
      assumed_token_type = "Bearer"
      bearer_names = ["bot"]
      success_member = "ok"
      error_members = ["error.type"]
      error_description_members = ["reason"]
      lifetime_unit = "milliseconds"
      access_token_lifetime = 3600
      rotation = { grace = "30m" }
      permanent_errors = ["invalid_code"]
      refresh_token_lifetime = "90d"
      narrow_tokens = false
      revocation_style = "bearer"
      revocation_parameters = { f = "7" }
      post_logout_redirect_uri = "http://127.0.0.1/bye"
      id_token_algorithms = ["ES256"]
      clock_tolerance = "1m"
      trusted_audiences = ["other"]
      login_timeout = "5m"
      """)
    var expected = ProviderSettings(
      name: try #require(ProviderName(rawValue: "work")), kind: .oauth2, displayName: "Work", clientID: "client")
    expected.server.issuer = Issuer(rawValue: "https://login.example.com")
    expected.server.issuerRule = .entraTenant
    expected.server.discovery = .oauth
    expected.server.endpoints[.authorization] = "https://login.example.com/a"
    expected.server.endpoints[.token] = "https://login.example.com/t"
    expected.server.refreshEndpoint = "https://login.example.com/r"
    expected.server.endpoints[.keys] = "https://login.example.com/k"
    expected.server.endpoints[.userinfo] = "https://login.example.com/u"
    expected.server.endpoints[.revocation] = "http://127.0.0.1:8080/v"
    expected.server.endpoints[.introspection] = "https://login.example.com/i"
    expected.server.endpoints[.endSession] = "https://login.example.com/e"
    expected.server.endpoints[.pushedAuthorizationRequest] = "https://login.example.com/p"
    expected.server.endpoints[.deviceAuthorization] = "https://login.example.com/d"
    expected.server.endpoints[.registration] = "https://login.example.com/reg"
    expected.client.credential = .basic(secret: Secret("s3cret"), encoding: .raw)
    expected.access.scopes = ["a", "b"]
    expected.access.scopeSeparator = " "
    expected.access.resource = "https://api.example.com"
    expected.client.redirect = .fixed(try RedirectURI("de.example:/cb"))
    expected.authorization.pkce = false
    expected.authorization.prompt = "login consent"
    expected.authorization.acrValues = ["gold", "silver"]
    expected.authorization.uiLocales = ["de"]
    expected.authorization.claims = #"{"id_token":{"acr":{"essential":true,"values":["a",1,1.5]}}}"#
    expected.authorization.details = #"[{"actions":["read"],"type":"t"}]"#
    expected.authorization.par = .always
    expected.token.allowsPassword = true
    expected.authorization.deviceParameters = ["e": "5"]
    expected.authorization.parameters = ["a": "1"]
    expected.token.parameters = ["b": "2"]
    expected.refresh.parameters = ["c": "3"]
    expected.token.headers = ["X-D": "4"]
    expected.refresh.headers = ["X-E": "6"]
    expected.token.bodyFormat = .json
    expected.token.response = TokenResponseQuirks(
      acceptsForm: true, scopeSeparator: ",", keepMembers: ["realmId"], fixedLifetime: .seconds(3600),
      lifetimeUnit: .milliseconds, path: ["authed_user"], tokenType: "Bearer", bearerNames: ["bot"],
      successMember: "ok", errorMembers: ["error.type"], errorDescriptionMembers: ["reason"])
    expected.refresh.path = []
    expected.refresh.rotation = .grace(.seconds(1800))
    expected.refresh.permanentErrors = [.text("invalid_code")]
    expected.refresh.tokenLifetime = .seconds(90 * 86_400)
    expected.refresh.narrowing = .never
    expected.logout.revocation = .bearer
    expected.logout.revocationParameters = ["f": "7"]
    expected.logout.postLogoutRedirectURI = "http://127.0.0.1/bye"
    expected.token.idToken.algorithms = ["ES256"]
    expected.token.idToken.tolerance = .seconds(60)
    expected.token.idToken.trustedAudiences = ["other"]
    expected.signIn.lifetime = .seconds(300)
    #expect(settings.providers == [expected])
    #expect(settings.warnings.isEmpty)
  }

  @Test("The other sections arrive where they belong")
  func sections() throws {
    let settings = try Fixture().load(
      """
      callback = { enabled = false, port = 4000, ipv4 = true, ipv6 = false }
      refresh.share = 1
      refresh.margin = "0s"
      refresh.jitter = 0
      refresh.minimum_ttl = 10
      refresh.retry_delays = ["1s", 2]
      refresh.longest_retry_after = "10m"
      refresh.concurrent_per_provider = 3
      [socket]
      path = "/run/x.sock"
      mode = "0660"
      connections = 5
      connections_per_user = 4
      requests_per_connection = 3
      request_memory_mb = 9
      request_memory_per_user_mb = 8
      reply_memory_mb = 7
      reply_memory_per_user_mb = 6
      lines_per_second = 5
      mb_per_second = 4
      share_without_rule = 0.5
      idle_timeout = "2m"
      [store]
      path = "/srv/grantd"
      key_file = "/srv/key"
      [log]
      level = "debug"
      [audit]
      enabled = false
      keep = "7d"
      records = 2000
      [limits]
      requests_per_second = 7
      burst = 70
      refusal_cost = 3
      """)
    var expected = Settings()
    expected.audit.isEnabled = false
    expected.audit.keep = .seconds(7 * 86_400)
    expected.audit.most = 2000
    expected.limits.rate = 7
    expected.limits.burst = 70
    expected.limits.refusalCost = 3
    expected.files = settings.files
    expected.callback.enabled = false
    expected.callback.port = 4000
    expected.callback.ipv6 = false
    expected.refresh.share = 1
    expected.refresh.margin = .zero
    expected.refresh.jitter = 0
    expected.refresh.minimumTTL = .seconds(10)
    expected.refresh.retryDelays = [.seconds(1), .seconds(2)]
    expected.refresh.longestRetryAfter = .seconds(600)
    expected.refresh.concurrentPerProvider = 3
    expected.socket.path = "/run/x.sock"
    expected.socket.mode = 0o660
    expected.socket.connections = 5
    expected.socket.connectionsPerUser = 4
    expected.socket.requestsPerConnection = 3
    expected.socket.requestMemory = 9
    expected.socket.requestMemoryPerUser = 8
    expected.socket.replyMemory = 7
    expected.socket.replyMemoryPerUser = 6
    expected.socket.linesPerSecond = 5
    expected.socket.volumePerSecond = 4
    expected.socket.shareWithoutRule = 0.5
    expected.socket.idleTimeout = .seconds(120)
    expected.store.path = "/srv/grantd"
    expected.store.keyFile = "/srv/key"
    expected.logLevel = "debug"
    #expect(settings == expected)
  }

  @Test("Rules know their users, groups and place")
  func rules() throws {
    let fixture = try Fixture()
    let settings = try fixture.load(
      """
      [[rule]]
      name = "mail"
      user = "mail"
      group = "operators"
      accounts = ["*@example.com"]
      access = ["use", "observe"]
      [[rule]]
      anyone = true
      accounts = ["*"]
      access = ["login"]
      """)
    #expect(settings.rules.map(\.name) == ["mail", "\(fixture.folder)/grantd.toml:7"])
    #expect(settings.rules.map(\.who.uid) == [8, nil])
    #expect(settings.rules.map(\.who.gid) == [900, nil])
    #expect(settings.rules.map(\.access) == [[.use, .observe], [.login]])
    #expect(settings.rules[0].accounts == ["*@example.com"])
  }

  @Test("A rule arrives with all that it says")
  func wholeRule() throws {
    let fixture = try Fixture()
    let settings = try fixture.load(
      """
      [[rule]]
      name = "all"
      uid = 1000
      gid = 1001
      unit = "a@*.service"
      user_unit = "b.service"
      exe = "/usr/bin/c"
      accounts = ["work", "*@example.com"]
      access = ["use"]
      methods = ["account.get"]
      scopes = ["email", "read"]
      confirm = true
      confirm_timeout = "10s"
      """)
    var rule = Rule(
      name: "all",
      who: .init(uid: 1000, gid: 1001, unit: "a@*.service", userUnit: "b.service", executable: "/usr/bin/c"),
      accounts: ["work", "*@example.com"], access: [.use], methods: ["account.get"], scopes: ["email", "read"],
      confirm: .seconds(10))
    rule.source = "\(fixture.folder)/grantd.toml:1"
    #expect(settings.rules == [rule])
  }

  @Test(
    "A redirect URI on loopback without a port is any port; all others are fixed",
    arguments: [
      ("http://127.0.0.1/callback", ProviderSettings.Redirect.loopback(host: .v4, path: "/callback")),
      ("http://[::1]/cb", .loopback(host: .v6, path: "/cb")),
      ("http://localhost", .loopback(host: .localhost, path: "/")),
      ("http://127.0.0.1:80/cb", .fixed(RedirectURI(rawValue: "http://127.0.0.1:80/cb")!)),
      ("https://example.com/cb", .fixed(RedirectURI(rawValue: "https://example.com/cb")!)),
      ("de.7pass.example:/cb/authz", .fixed(RedirectURI(rawValue: "de.7pass.example:/cb/authz")!)),
    ])
  func redirects(text: String, redirect: ProviderSettings.Redirect) throws {
    let settings = try Fixture().load(Fixture.provider + "redirect_uri = \"\(text)\"")
    #expect(settings.providers[0].client.redirect == redirect)
  }

  @Test(
    "Discovery follows kind and endpoints",
    arguments: [
      ("", DiscoveryStyle.openID as DiscoveryStyle?), ("kind = \"oauth2\"", .oauth), ("discovery = \"oauth\"", .oauth),
      (
        "kind = \"oauth2\"\nauthorization_endpoint = \"https://a.example\"\ntoken_endpoint = \"https://a.example\"",
        nil
      ),
    ])
  func discovery(keys: String, style: DiscoveryStyle?) throws {
    #expect(try Fixture().load(Fixture.provider + keys).providers[0].server.discovery == style)
  }

  @Test("Drop-ins are read after the main file: rules add up, later keys win, a second provider is refused")
  func merging() throws {
    let fixture = try Fixture()
    let rule = "[[rule]]\nuid = 1\naccounts = [\"*\"]\naccess = [\"use\"]\n"
    try fixture.write("grantd.toml", Fixture.provider + rule + "[callback]\nport = 1\nipv6 = false")
    try fixture.write("grantd.d/20.toml", Fixture.provider.replacing("work", with: "home") + "[callback]\nport = 3")
    try fixture.write("grantd.d/10.toml", rule + "[callback]\nport = 2")
    try fixture.write("grantd.d/ignored.conf", "not TOML")
    let settings = try Settings.load(fixture.sources())
    #expect(
      settings.files == ["grantd.toml", "grantd.d/10.toml", "grantd.d/20.toml"].map { "\(fixture.folder)/\($0)" })
    #expect(settings.providers.map(\.name.rawValue) == ["work", "home"])
    #expect(settings.rules.count == 2)
    #expect(settings.callback.port == 3)
    #expect(!settings.callback.ipv6)

    try fixture.write("grantd.d/30.toml", "\n" + Fixture.provider)
    #expect(
      fixture.complaint(fixture.sources())
        == "grantd.d/30.toml:2: [provider.work] is there twice: the first is at grantd.toml:1")
  }

  @Test(
    "Warnings have their place",
    arguments: [
      (
        Fixture.provider + "scopes = [\"offline_access\"]",
        "grantd.toml:4: [provider.work] asks for offline_access without prompt = \"consent\": many providers then give no "
          + "refresh token (OpenID Connect Core §11)" as String?
      ),
      (Fixture.provider + "scopes = [\"offline_access\"]\nprompt = \"login consent\"", nil),
      (
        "[provider.work]\nclient_id = \"x\"\nissuer = \"http://a.example\"\nallow_insecure_http = true",
        "grantd.toml:4: [provider.work] sends secrets over plain http: any host on the path can read them"
      ),
      ("[provider.work]\nclient_id = \"x\"\nissuer = \"http://127.0.0.1:80\"\nallow_insecure_http = true", nil),
      (
        Fixture.provider + "[callback]\nenabled = false",
        "grantd.toml:1: [provider.work] has its redirect_uri on this machine, and [callback] is off: logins end by "
          + "login.handle_callback alone"
      ),
    ])
  func warns(text: String, warning: String?) throws {
    let fixture = try Fixture()
    let found = try fixture.load(text).warnings.map { $0.replacing("\(fixture.folder)/", with: "") }
    #expect(found == (warning.map { [$0] } ?? []))
  }
}
