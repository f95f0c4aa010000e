import BrokerAPI
import HTTPServer
import NIOHTTP1
import Pages
import ProviderTemplates

/// Adding an account: a provider of this broker, or a new one from its issuer, by the methods that `grantctl setup` calls.
extension Ask {
  private static let mostProviders = 60

  func add() async -> HTTPReply {
    if let id = query["run"] { return await shownRun(id) }
    if let provider = query["provider"] { return await checked(provider) }
    if let name = query["template"], let template = SetupTemplate.named(name) { return page(guide(template)) }
    var known: HTML = ""
    if case .success(let list) = await call(ProviderList.self, NoParams()), !list.providers.isEmpty {
      let cards = list.providers.prefix(Self.mostProviders).map { provider -> HTML in
        """
        <article class="card"><div class="title"><h3><bdi>\(provider.display_name, limit: 64)</bdi></h3></div>
        <p class="who"><bdi>\(provider.provider)</bdi>, \(PageText.count(provider.accounts, "account"))</p>
        <div class="controls">\(start(provider.provider))</div></article>

        """
      }
      known = "<h2>Providers of this broker</h2>\n<div class=\"cards\">\(cards)</div>\n"
    }
    let templates = SetupTemplate.all.map { template -> HTML in
      "<a class=\"button\" href=\"/add?template=\(query: template.name)\">\(template.title)</a>"
    }
    return page(
      View(
        title: "Add an account", section: .home,
        main: """
          \(known)<h2>Another provider</h2>
          <div class="panels"><div class="panel"><h3>By its address</h3>
          <p class="soft">The issuer's URL is enough: grantd reads the rest, and registers itself if it can.</p>
          \(issuerForm(nil))</div>
          <div class="panel"><h3>By a template</h3><p class="soft">Each shows what to register, and where.</p>
          <div class="controls">\(templates)</div></div></div>

          """, isStill: true))
  }

  /// A new name for the account, and the button.
  func start(_ provider: String) -> HTML {
    form(
      "/login", [("provider", provider)],
      """
      <label for="account-\(provider)">Name of the account</label>\
      <input id="account-\(provider)" name="account" value="\(provider)" maxlength="128" autocomplete="off">\
      <p class="controls"><button class="main">Sign in</button></p>
      """)
  }

  private func issuerForm(_ issuer: String?) -> HTML {
    form(
      "/add", [],
      """
      <label for="issuer">Issuer URL</label>\
      <input id="issuer" name="issuer" value="\(issuer ?? "")" placeholder="https://login.example.com" required \
      autocomplete="url" inputmode="url"><p class="controls"><button class="main">Continue</button></p>
      """)
  }

  private func clientForm(_ issuer: String) -> HTML {
    form(
      "/add", [("issuer", issuer)],
      """
      <label for="client">Client ID</label><input id="client" name="client_id" required autocomplete="off">\
      <label for="secret">Client secret, if there is one</label>\
      <input id="secret" name="client_secret" type="password" autocomplete="off">\
      <p class="controls"><button class="main">Continue</button></p>
      """)
  }

  // MARK: From an issuer

  func addProvider() async -> HTTPReply {
    if let template = form["template"].flatMap(SetupTemplate.named) { return await addTemplate(template) }
    guard let text = form["issuer"], let issuer = IssuerText(text) else {
      return page(
        View(
          title: "Add an account", section: .home,
          main: Parts.message("bad", "this is not the URL of an issuer", "Enter it as https://login.example.com.")
            + "<div class=\"panel\">\(issuerForm(form["issuer"]))</div>\n", isStill: true), status: .badRequest)
    }
    if let template = issuer.candidates.lazy.compactMap(SetupTemplate.of).first, form["client_id"] == nil {
      return .seeOther("/add?template=\(HTML.percentEncoded(template.name))")
    }
    let known = (try? await call(ProviderList.self, NoParams()).get().providers) ?? []
    if let same = known.first(where: { issuer.candidates.contains($0.issuer ?? "") }), form["client_id"] == nil {
      return .seeOther("/add?provider=\(HTML.percentEncoded(same.provider))")
    }
    let base = String(issuer.host.prefix(60)).replacing(":", with: "-")
    var candidates: [ProviderRegister.Params] = []
    for candidate in issuer.candidates {
      var params = ProviderRegister.Params(issuer: candidate, provider: freeName(base, known))
      if let id = form["client_id"] {
        params.client_id = id
        params.client_secret = form["client_secret"].map { SecretText($0) }
        params.redirect_uri = await redirectURI()
      }
      candidates.append(params)
    }
    return register(issuer, candidates)
  }

  func notAdded(_ issuer: IssuerText, _ error: RPCError) async -> View {
    let isByHand = [.unsupportedByProvider, .registrationRejected].contains(error.reason)
    guard isByHand else {
      return View(
        title: "Not added", section: .home,
        main: Parts.problem(error) + "<div class=\"panel\">\(issuerForm(issuer.candidates[0]))</div>\n", isStill: true)
    }
    return View(
      title: "Register a client at \(issuer.host)", section: .home,
      main: Parts.message(
        "neutral", "\(issuer.host) does not register clients by itself: \(error.message)",
        "Register one there by hand, or ask its administrator.")
          + """
          <div class="panels"><div class="panel"><h2>1. Register a client</h2><ol>\
          <li>Type: native or desktop application, with PKCE and refresh tokens.</li>\
          <li>Redirect URI, to copy:</li></ol><pre tabindex="0" id="redirect">\(await redirectURI() ?? "grantd's callback endpoint is off")</pre></div>
          <div class="panel"><h2>2. Enter it</h2>\(clientForm(issuer.candidates[0]))</div></div>

          """, isStill: true)
  }

  /// With the port of now.
  private func redirectURI() async -> String? {
    guard case .success(let status) = await call(BrokerStatus.self, NoParams()) else { return nil }
    let port = status.callback.lazy.compactMap { $0.split(separator: ":").last.flatMap { Int($0) } }.first
    return port.map { "http://127.0.0.1:\($0)/callback" }
  }

  func freeName(_ base: String, _ known: [ProviderView]) -> String {
    let taken = Set(known.map(\.provider))
    return ([base] + (2...99).map { "\(base)-\($0)" }).first { !taken.contains($0) } ?? base
  }

  // MARK: Checks

  func rows(_ checks: [ProviderCheck.Check]) -> [HTML] {
    checks.map { check in
      let account: HTML = check.account.map { ", <bdi>\($0)</bdi>" } ?? ""
      return row("\(Self.name(of: check))\(account)", check.result, check.message, check.hint)
    }
  }

  private static func name(of check: ProviderCheck.Check) -> String {
    let words = check.name.rawValue.split(separator: "_").map {
      ["pkce", "uri"].contains($0) ? $0.uppercased() : "\($0)"
    }
    return Parts.sentence(words.joined(separator: " "))
  }

  func row(_ name: HTML, _ result: CheckResult, _ message: String, _ hint: String?) -> HTML {
    let (tone, word): (HTML, HTML) =
      switch result {
      case .ok: ("good", "OK")
      case .warning: ("warn", "Look at this")
      case .failed: ("bad", "Failed")
      case .skipped: ("neutral", "Skipped")
      }
    let step: HTML = hint.map { "<p>\(words: $0)</p>" } ?? ""
    return """
      <li><span class="name">\(name)</span>\(Parts.badge(tone, word))<p class="soft"><bdi>\(message)</bdi></p>\(step)</li>

      """
  }
}
