/// A template of `config/providers.d` that `setup` knows how to fill in.
public struct SetupTemplate: Sendable {
  /// A part of the template's URLs that the user must give, such as the host of a GitLab.
  public struct Variable: Sendable {
    public var name: String
    public var question: String
    /// Used unless the user says otherwise; nil: required.
    public var standard: String?
  }

  public enum SecretUse: Sendable { case none, optional, required }

  /// The profile's name.
  public var name: String
  public var title: String
  public var page: String?
  /// What to create there.
  public var steps: [String]
  /// As the template has it; nil: none has to be registered.
  public var redirectURI: String?
  public var secret = SecretUse.none
  public var variables: [Variable] = []
  /// Issuers of this provider begin with one of these.
  public var issuers: [String] = []

  /// The templates of `config/providers.d` that are not among ``all``: each needs decisions that only docs/providers.md
  /// explains.
  public static let writtenByHand: Set = [
    "7pass", "github-oauth", "google-service-account", "oauth2", "oidc", "salesforce", "slack-bot", "uber",
  ]

  public static func named(_ name: String) -> SetupTemplate? { all.first { $0.name == name.lowercased() } }

  public static func of(issuer: String) -> SetupTemplate? {
    all.first { template in
      template.issuers.contains { issuer == $0 || issuer == $0 + "/" || issuer.hasPrefix($0 + "/") }
    }
  }

  private static let portless = "http://127.0.0.1/callback"
  private static let localhost = "http://localhost:17827/callback"

  public static let all = [
    SetupTemplate(
      name: "google", title: "Google", page: "https://console.cloud.google.com/apis/credentials",
      steps: [
        "Create credentials > OAuth client ID > application type “Desktop app”.",
        "Enable the APIs that you use, and add their scopes to the consent screen.",
        "Publish the consent screen: in “Testing”, Google ends each sign-in after 7 days.",
      ], redirectURI: nil, secret: .required, issuers: ["https://accounts.google.com"]),
    SetupTemplate(
      name: "microsoft", title: "Microsoft",
      page: "https://entra.microsoft.com/#view/Microsoft_AAD_RegisteredApps/ApplicationsListBlade",
      steps: [
        "App registrations > New registration.",
        "Authentication > Add a platform > “Mobile and desktop applications”.",
        "The client ID is the “Application (client) ID” of the overview; there is no secret.",
      ], redirectURI: "http://localhost/callback",
      variables: [
        .init(name: "tenant", question: "Directory (tenant) ID, or common for all accounts", standard: "common")
      ], issuers: ["https://login.microsoftonline.com"]),
    SetupTemplate(
      name: "github", title: "GitHub", page: "https://github.com/settings/apps/new",
      steps: [
        "Create a GitHub App; leave “Expire user authorization tokens” on.",
        "Tick “Enable Device Flow” to sign in on another device.",
        "Generate a client secret; the client ID begins with Iv.",
      ], redirectURI: portless, secret: .required, issuers: ["https://github.com"]),
    SetupTemplate(
      name: "gitlab", title: "GitLab", page: nil,
      steps: [
        "User settings > Applications > Add new application, at your GitLab.",
        "Tick the scopes that you use; untick “Confidential” for a client without a secret.",
      ], redirectURI: portless, secret: .optional,
      variables: [.init(name: "host", question: "Host of the GitLab", standard: "gitlab.com")],
      issuers: ["https://gitlab.com"]),
    SetupTemplate(
      name: "keycloak", title: "Keycloak", page: nil,
      steps: [
        "Clients > Create client, of the type OpenID Connect.",
        "“Client authentication” off; “Standard flow” on.",
      ], redirectURI: portless, secret: .optional,
      variables: [
        .init(name: "host", question: "Host of the Keycloak", standard: nil),
        .init(name: "realm", question: "Realm", standard: nil),
      ]),
    SetupTemplate(
      name: "okta", title: "Okta", page: nil,
      steps: [
        "Admin Console > Applications > Create App Integration > OIDC, Native Application.",
        "Tick the grant types Authorization Code and Refresh Token.",
      ], redirectURI: "http://127.0.0.1:17827/callback", secret: .optional,
      variables: [.init(name: "domain", question: "Domain, such as example.okta.com", standard: nil)]),
    SetupTemplate(
      name: "auth0", title: "Auth0", page: "https://manage.auth0.com",
      steps: [
        "Applications > Create Application > Native.",
        "Advanced Settings > Grant Types > tick Refresh Token.",
      ], redirectURI: "http://127.0.0.1:17827/callback", secret: .optional,
      variables: [.init(name: "domain", question: "Domain, such as example.eu.auth0.com", standard: nil)]),
    SetupTemplate(
      name: "slack", title: "Slack", page: "https://api.slack.com/apps",
      steps: [
        "Create New App; under OAuth & Permissions opt in to PKCE.",
        "Add the user token scopes that you use.",
      ], redirectURI: localhost),
    SetupTemplate(
      name: "linkedin", title: "LinkedIn", page: "https://www.linkedin.com/developers/apps",
      steps: ["Create app; under Products add what you use: it brings the scopes."], redirectURI: localhost,
      secret: .required),
    SetupTemplate(
      name: "xero", title: "Xero", page: "https://developer.xero.com/app/manage",
      steps: ["New app, of the type “Mobile or desktop app”: it has no secret."], redirectURI: localhost),
    SetupTemplate(
      name: "quickbooks", title: "QuickBooks", page: "https://developer.intuit.com/app/developer/dashboard",
      steps: ["Create an app. The client ID and the secret are under Keys & credentials."], redirectURI: localhost,
      secret: .required),
    SetupTemplate(
      name: "zoom", title: "Zoom", page: "https://marketplace.zoom.us",
      steps: ["Develop > Build App > General App, user-managed."], redirectURI: portless, secret: .required),
    SetupTemplate(
      name: "spotify", title: "Spotify", page: "https://developer.spotify.com/dashboard",
      steps: ["Create app > Web API. No secret is needed."], redirectURI: portless),
    SetupTemplate(
      name: "dropbox", title: "Dropbox", page: "https://www.dropbox.com/developers/apps",
      steps: ["Create app, and tick the permissions that you use. The “App key” is the client ID."],
      redirectURI: "http://127.0.0.1:17827/callback"),
  ]

  public static var names: String { all.map(\.name).joined(separator: ", ") }
}
