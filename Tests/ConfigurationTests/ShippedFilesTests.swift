import Broker
import Foundation
import Grants
import OAuth
import Providers
import Testing

@testable import GrantdConfiguration

@Suite struct ShippedFilesTests {
  /// The origins for requests with a token (`api_origins`); other templates state why they have none.
  private static let publicAPIs = [
    "google": "https://www.googleapis.com", "google-service-account": "https://storage.googleapis.com",
    "microsoft": "https://graph.microsoft.com", "github": "https://api.github.com",
    "github-oauth": "https://api.github.com", "gitlab": "https://gitlab.example.com", "slack": "https://slack.com",
    "slack-bot": "https://slack.com", "linkedin": "https://api.linkedin.com", "xero": "https://api.xero.com",
    "quickbooks": "https://quickbooks.api.intuit.com", "zoom": "https://api.zoom.us",
    "spotify": "https://api.spotify.com", "uber": "https://api.uber.com",
    "dropbox": "https://content.dropboxapi.com",
  ]

  private func file(_ path: String) throws -> String {
    try String(contentsOfFile: "\(Fixture.package)/\(path)", encoding: .utf8)
  }

  private func provider(_ profile: String, _ keys: String = "") throws -> ProviderSettings {
    let settings = try Fixture().load("[provider.x]\nprofile = \"\(profile)\"\nclient_id = \"c\"\n\(keys)")
    #expect(settings.warnings.isEmpty)
    return try #require(settings.providers.first)
  }

  @Test("The example changes nothing as it is")
  func exampleAsItIs() throws {
    var settings = try Fixture().load(try file("config/grantd.toml"))
    settings.files = []
    #expect(settings == Settings())
  }

  @Test("The example is right with every line in use, says every default, and has every key")
  func exampleInUse() throws {
    let fixture = try Fixture()
    for name in ["google.secret", "company.secret", "gitlab-secret", "proxy-password", "database-password"] {
      try fixture.write(name, "x", mode: 0o600)
    }
    for name in [
      "bank.key", "bank-client.key", "bank-requests.key", "insurer-key", "insurer-tls", "insurer-requests", "clerk-key",
    ] { try fixture.write(name, TestKey.pem, mode: 0o600) }
    for name in ["bank-authority.pem", "bank-client.pem", "insurer.pem"] {
      try fixture.write(name, TestKey.certificate)
    }
    try fixture.write("robot.json", TestKey.googleServiceAccount, mode: 0o600)
    let commented = /#(\[|[a-z_0-9]+ = ).*/
    let lines = try file("config/grantd.toml").split(separator: "\n", omittingEmptySubsequences: false).map { line in
      line.wholeMatch(of: commented) == nil ? line : line.dropFirst()
    }
    let text = lines.joined(separator: "\n")
    var settings = try fixture.load(
      text.replacing("/etc/grantd", with: fixture.folder), credentials: fixture.folder, home: "/home/ada")
    #expect(
      settings.providers.map(\.name.rawValue) == [
        "google", "work", "company", "gitlab", "bank", "insurer", "relic", "museum", "google-robots",
      ])
    #expect(settings.accounts.map(\.source.kind) == [.clientCredentials, .jwtBearer, .jwtBearer, .tokenExchange])
    #expect(settings.rules.count == 10)
    #expect(settings.hooks.count == 1)
    #expect(settings.credentials.offers.map(\.id) == ["mail-token"])
    #expect(settings.tokenFiles.count == 6)
    // Its port is the standard one, which no proxy can know, and its providers are on this machine.
    #expect(settings.warnings.count == 2 && settings.warnings.allSatisfy { $0.contains("[callback] has public_url") })
    #expect(settings.systems.map(\.site.name.rawValue) == ["cameras", "news"])
    settings.providers = []
    settings.systems = []
    settings.accounts = []
    settings.rules = []
    settings.hooks = []
    settings.credentials.offers = []
    settings.tokenFiles = []
    #expect(settings.loopback.handles.count == 1 && settings.loopback.clouds.count == 3)
    settings.loopback = .init()
    #expect(settings.proxies.https?.password != nil && settings.proxies.http == settings.proxies.https)
    settings.proxies = .init()
    settings.files = []
    settings.warnings = []
    var standard = Settings()
    standard.socket.path = "/run/grantd/grantd.sock"
    standard.socket.mode = 0o666
    standard.store.path = "/var/lib/grantd"
    standard.store.keyFile = "/var/lib/grantd/grantd.key"
    standard.store.kind = .sqlite
    standard.store.connection = "service=grantd"
    standard.store.passwordFile = "\(fixture.folder)/database-password"
    standard.store.password = Secret("x")
    standard.callback.publicOrigin = "https://broker.example.com"
    standard.metrics.listen = .loopback(host: "127.0.0.1", port: 9464)
    standard.http.listen = .loopback(host: "127.0.0.1", port: 7817)
    standard.http.unix = "http.sock"
    standard.logLevel = "info"
    standard.clientMetadata = "https://example.com/grantd.json"
    #expect(settings == standard)

    for (header, names) in ConfigurationReference.keys {
      // A key that excludes one of the example is in its comment.
      for name in names {
        #expect(text.contains("\n\(name) = ") || text.contains("`\(name)`"), "\(header) \(name)")
      }
    }
  }

  @Test("Google: offline access, consent, its own issuer rule")
  func google() throws {
    let provider = try provider("google")
    #expect(provider.server.kind == .oidc)
    #expect(provider.server.issuer?.rawValue == "https://accounts.google.com")
    #expect(provider.server.issuerRule == .google)
    #expect(provider.server.discovery == .openID)
    #expect(provider.authorization.parameters == ["access_type": "offline"])
    #expect(provider.authorization.prompt == "consent")
    #expect(provider.refresh.rotation == .none)
    #expect(provider.displayName == "Google")
    #expect(provider.profile == "google")
  }

  @Test("Microsoft: the tenant is in the issuer")
  func microsoft() throws {
    let provider = try provider("microsoft")
    #expect(provider.server.issuer?.rawValue == "https://login.microsoftonline.com/common/v2.0")
    #expect(provider.server.issuerRule == .entraTenant)
    #expect(provider.access.scopes.contains("offline_access"))
    #expect(provider.client.redirect == .loopback(host: .localhost, path: "/callback"))
    #expect(provider.refresh.rotation == .none)
    #expect(provider.refresh.permanentErrors == [.text("interaction_required")])
    #expect(
      try self.provider("microsoft", "tenant = \"1-2\"").server.issuer?.rawValue
        == "https://login.microsoftonline.com/1-2/v2.0")
  }

  @Test("GitHub: forms, strict rotation, an error code of its own")
  func github() throws {
    let fixture = try Fixture()
    let secret = try fixture.write("secret", "x", mode: 0o600)
    let provider = try provider("github", "client_secret_file = \"\(secret)\"")
    #expect(provider.server.kind == .oauth2)
    #expect(provider.server.discovery == nil)
    #expect(provider.server.endpoints[.authorization] == "https://github.com/login/oauth/authorize")
    #expect(provider.server.endpoints[.token] == "https://github.com/login/oauth/access_token")
    #expect(provider.client.credential == .post(secret: Secret("x")))
    #expect(provider.token.response.acceptsForm)
    #expect(provider.token.response.scopeSeparator == ",")
    #expect(provider.refresh.rotation == .strict)
    #expect(provider.refresh.permanentErrors == [.text("bad_refresh_token")])
    #expect(provider.refresh.tokenLifetime == .seconds(183 * 86_400))
  }

  @Test("GitLab: the host is in the issuer")
  func gitlab() throws {
    #expect(try provider("gitlab").server.issuer?.rawValue == "https://gitlab.com")
    let own = try provider("gitlab", "host = \"git.example.com:8443\"")
    #expect(own.server.issuer?.rawValue == "https://git.example.com:8443")
    #expect(own.refresh.rotation == .strict && own.logout.revokesReplaced)
    #expect(own.server.discovery == .openID)
  }

  @Test("Dropbox: offline tokens, no rotation, revocation of its own, a fixed port")
  func dropbox() throws {
    let provider = try provider("dropbox", "authorization_parameters = { locale = \"de\" }")
    #expect(provider.server.kind == .oauth2)
    #expect(provider.server.endpoints[.authorization] == "https://www.dropbox.com/oauth2/authorize")
    #expect(provider.server.endpoints[.token] == "https://api.dropboxapi.com/oauth2/token")
    #expect(provider.server.endpoints[.revocation] == "https://api.dropboxapi.com/2/auth/token/revoke")
    #expect(provider.logout.revocation == .bearer)
    #expect(
      provider.authorization.parameters == ["token_access_type": "offline", "disable_signup": "true", "locale": "de"])
    #expect(provider.refresh.rotation == .none)
    #expect(provider.client.redirect == .fixed(try RedirectURI("http://127.0.0.1:17827/callback")))
    let online = try self.provider("dropbox", "authorization_parameters = { token_access_type = \"online\" }")
    #expect(online.authorization.parameters["token_access_type"] == "online")
  }

  @Test("Uber: the sign-in page is a choice")
  func uber() throws {
    #expect(
      try provider("uber").server.endpoints[.authorization] == "https://auth.uber.com/oauth/v2/universal/authorize")
    let eats = try provider("uber", "product = \"eats\"\nscopes = [\"history\"]")
    #expect(eats.server.endpoints[.authorization] == "https://auth.uber.com/oauth/v2/eats/authorize")
    #expect(eats.server.endpoints[.token] == "https://auth.uber.com/oauth/v2/token")
    #expect(eats.access.scopes == ["history"])
    #expect(eats.client.credential == .none)
  }

  @Test("7Pass: the issuer is the user's, consent goes with offline access")
  func sevenPass() throws {
    let keys = "issuer = \"https://op.example.com\"\nredirect_uri = \"de.7pass.example:/cb/authz\""
    let provider = try provider("7pass", keys + "\ntrusted_audiences = [\"service\"]")
    #expect(provider.access.scopes == ["openid", "offline_access", "profile", "email"])
    #expect(provider.authorization.prompt == "consent")
    #expect(provider.token.idToken.algorithms == ["RS256"])
    #expect(provider.token.idToken.trustedAudiences == ["service"])
    #expect(provider.refresh.tokenLifetime == .seconds(90 * 86_400))
    #expect(provider.client.redirect == .fixed(try RedirectURI("de.7pass.example:/cb/authz")))
  }

  @Test("oidc: an issuer and a client are enough")
  func oidc() throws {
    let provider = try provider("oidc", "issuer = \"https://login.example.com\"")
    #expect(provider.displayName == "x")
    #expect(provider.authorization.pkce)
    #expect(provider.client.redirect == .loopback(host: .v4, path: "/callback"))
    #expect(provider.refresh.rotation == .strict)
    #expect(provider.authorization.prompt == nil && provider.access.optionalScopes == ["offline_access"])
    #expect(!provider.access.scopes.contains("offline_access"))
    let chosen = try self.provider("oidc", "issuer = \"https://login.example.com\"\nscopes = [\"openid\"]")
    #expect(chosen.access.scopes == ["openid"] && chosen.access.optionalScopes.isEmpty)
  }

  @Test(
    "Servers of one's own: the issuer is made of what the section says, or written out in place of it",
    arguments: [
      ("keycloak", "host = \"a.example:8443\"\nrealm = \"r\"", "https://a.example:8443/realms/r"),
      ("keycloak", "issuer = \"https://a.example/auth/realms/r\"", "https://a.example/auth/realms/r"),
      ("auth0", "domain = \"a.eu.auth0.com\"", "https://a.eu.auth0.com/"),
      ("okta", "domain = \"a.okta.com\"", "https://a.okta.com/oauth2/default"),
      ("okta", "domain = \"a.okta.com\"\nserver = \"aus1\"", "https://a.okta.com/oauth2/aus1"),
      ("okta", "issuer = \"https://a.okta.com\"", "https://a.okta.com"),
      ("xero", "", "https://identity.xero.com"),
    ])
  func issuers(profile: String, keys: String, issuer: String) throws {
    let provider = try provider(profile, keys)
    #expect(provider.server.issuer?.rawValue == issuer)
    #expect(provider.server.discovery == .openID)
    #expect(provider.access.scopes.contains("offline_access"))
    // None is required, and there is no warning.
    #expect(provider.authorization.prompt == "")
  }

  @Test("A server of one's own must be named")
  func unnamed() throws {
    for (profile, variable) in [("keycloak", "host"), ("auth0", "domain"), ("okta", "domain")] {
      let complaint = try Fixture().complaint("[provider.x]\nprofile = \"\(profile)\"\nclient_id = \"c\"\n")
      #expect(complaint == "grantd.toml:1: [provider.x] has no \"\(variable)\", which its profile needs")
    }
  }

  @Test(
    "Refreshes: whose old refresh token stays good, whose a while, and whose not",
    arguments: [
      ("linkedin", Rotation.none, 365 as Int64?, true), ("salesforce", .strict, nil, true),
      ("xero", .grace(.seconds(1800)), 60, false), ("quickbooks", .strict, 100, true), ("zoom", .strict, 90, true),
      ("spotify", .strict, nil, false), ("slack", .strict, 30, false), ("github-oauth", .strict, nil, true),
    ])
  func rotations(profile: String, rotation: Rotation, days: Int64?, hasSecret: Bool) throws {
    let fixture = try Fixture()
    let secret = try fixture.write("secret", "x", mode: 0o600)
    let provider = try provider(profile, hasSecret ? "client_secret_file = \"\(secret)\"" : "")
    #expect(provider.refresh.rotation == rotation)
    #expect(provider.refresh.tokenLifetime == days.map { .seconds($0 * 86_400) })
    #expect(provider.refresh.narrowing == .never)
    #expect((provider.client.credential == .none) == !hasSecret)
  }

  @Test(
    "Every template's own example is right",
    arguments: [
      "google", "google-service-account", "microsoft", "github", "github-oauth", "gitlab", "slack", "slack-bot",
      "linkedin", "salesforce", "xero", "quickbooks", "zoom", "spotify", "dropbox", "uber", "7pass", "keycloak",
      "auth0",
      "okta", "oidc", "oauth2",
    ])
  func examples(name: String) throws {
    let lines = try file("config/providers.d/\(name).toml").split(separator: "\n").filter {
      $0.hasPrefix("#   ") && !$0.hasPrefix("#    ")
    }
    let example = lines.map { String($0.dropFirst(4)) }.joined(separator: "\n")
    #expect(example.contains("profile = \"\(name)\""))
    let fixture = try Fixture()
    try fixture.write("\(name).secret", "x", mode: 0o600)
    try fixture.write("robot.json", TestKey.googleServiceAccount, mode: 0o600)
    let settings = try fixture.load(example.replacing("/etc/grantd", with: fixture.folder))
    #expect(settings.providers.count == 1)
    #expect(settings.warnings.isEmpty)
    #expect(try file("docs/providers.md").contains(example))
    let origins = try #require(settings.providers.first).api.origins.map(\.absoluteString)
    if let api = Self.publicAPIs[name] {
      #expect(origins.contains(api))
    } else {
      #expect(origins.isEmpty)
      #expect(try file("config/providers.d/\(name).toml").contains("\n# No api_origins: "), "it says why")
    }
  }

  @Test("A template's mistake is said where it is")
  func templateMistakes() throws {
    let fixture = try Fixture()
    try fixture.write("templates/own.toml", "kind = \"oidc\"\nisuer = \"https://{host}\"\n[variables]\nhost = \"\"\n")
    try fixture.write("grantd.toml", "[provider.x]\nprofile = \"own\"\nclient_id = \"c\"")
    let sources = fixture.sources(templates: ["\(fixture.folder)/none", "\(fixture.folder)/templates"])
    #expect(fixture.complaint(sources) == "grantd.toml:1: [provider.x] has no \"host\", which its profile needs")
    try fixture.write("grantd.toml", "[provider.x]\nprofile = \"own\"\nclient_id = \"c\"\nhost = \"h\"")
    #expect(
      fixture.complaint(sources).hasPrefix(
        "templates/own.toml:2: unknown key \"isuer\" in [provider.x]: did you mean \"issuer\"?\n"))
  }

  @Test("docs/configuration.md is what the tables say")
  func reference() throws {
    #expect(try file("docs/configuration.md") == ConfigurationReference.markdown())
  }
}
