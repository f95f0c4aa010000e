import BrokerAPI
import HTTPServer
import NIOHTTP1
import Pages
import PlainText
import QRCodes

/// A sign-in: its start, where to sign in, and its result.
extension Ask {
  /// Seconds: a view does not wait for the user.
  private static let glance = 0.05

  func startLogin(isDevice: Bool = false) async -> HTTPReply {
    guard let provider = form["provider"] else { return page(.notFound, status: .badRequest) }
    let params = LoginStart.Params(
      provider: provider, account: form["account"],
      destinations: isDevice ? ["device"] : ["browser", "manual"])
    switch await call(LoginStart.self, params) {
    case .success(let started):
      let login = StartedLogin(
        id: started.login_id, provider: provider, account: started.account, expiresAt: started.expires_at,
        destinations: started.destinations, warnings: started.warnings)
      pages.remember(login, in: visit)
      return .seeOther("/login?id=\(HTML.percentEncoded(started.login_id))")
    case .failure(let error):
      // The same account: go on with the one that was started here.
      if error.reason == .loginInProgress,
        let known = visit.logins.last(where: { $0.provider == provider && $0.account == form["account"] ?? provider })
      {
        return .seeOther("/login?id=\(HTML.percentEncoded(known.id))")
      }
      let device: HTML =
        isDevice && error.reason == .unsupportedByProvider
        ? "<p><a href=\"/add?provider=\(query: provider)\">Sign in in this browser instead</a></p>" : ""
      return page(
        View(title: "Sign-in not started", section: .home, main: Parts.problem(error) + device, isStill: true),
        status: .conflict)
    }
  }

  func login() async -> HTTPReply {
    guard let id = query["id"], let login = visit.logins.first(where: { $0.id == id }) else {
      return page(
        View(
          title: "Sign-in not found", section: .home,
          main: Parts.message(
            "neutral", "this page did not start such a sign-in", "Start it again from your accounts.",
            "<p class=\"controls\"><a class=\"button\" href=\"/\">Accounts</a></p>")), status: .notFound)
    }
    switch await call(LoginWait.self, .init(login_id: id, timeout: Self.glance)) {
    case .success(let result) where result.state == .completed: return page(completed(login, result))
    case .success(let result) where result.state == .actionRequired:
      return page(
        View(
          title: "One more thing to do", section: .home,
          main: Parts.message(
            "warn", result.action?.message ?? "the provider requires one more step",
            "Run `grantctl login continue \(login.id)`.")))
    case .success: return page(pending(login))
    case .failure(let error): return page(failed(login, error))
    }
  }

  private func completed(_ login: StartedLogin, _ result: LoginWait.Result) -> View {
    let who: HTML =
      result.account?.identity.map { "<div><dt>Signed in as</dt><dd><bdi>\($0.bestName, limit: 128)</bdi></dd></div>" }
      ?? ""
    let warnings = (result.warnings ?? []).map { Parts.message("warn", $0, nil) }
    let scopes: HTML =
      result.account.map { "<div><dt>Scopes</dt><dd>\($0.scopes.joined(separator: " "))</dd></div>" } ?? ""
    return View(
      title: "Signed in", section: .home,
      main: """
        <div class="panel narrow good"><dl>\(who)<div><dt>Account</dt><dd><bdi>\(login.account)</bdi></dd></div>\
        <div><dt>Provider</dt><dd><bdi>\(login.provider)</bdi></dd></div>\(scopes)</dl>\(warnings)
        <p class="controls"><a class="button main" href="/use?account=\(query: login.account)">Use it in …</a>\
        <a class="button" href="/">Accounts</a></p></div>

        """, said: "Signed in to \(login.account)", isStill: true)
  }

  private func failed(_ login: StartedLogin, _ error: RPCError) -> View {
    let title =
      switch error.reason {
      case .loginDenied: "Sign-in declined"
      case .loginExpired: "Sign-in expired"
      case .loginCancelled: "Sign-in cancelled"
      case .unknownLogin: "Sign-in has ended"
      default: "Sign-in failed"
      }
    return View(
      title: title, section: .home,
      main: Parts.problem(error)
        + """
        <div class="controls">\(form("/login", [("provider", login.provider), ("account", login.account)], "<button class=\"main\">Sign in again</button>"))\
        <a class="button" href="/">Accounts</a></div>

        """, said: title, isStill: true)
  }

  private func pending(_ login: StartedLogin) -> View {
    let fields: [(name: HTML, value: String)] = [("provider", login.provider), ("account", login.account)]
    let warnings = login.warnings.map { Parts.message("warn", $0, nil) }
    let way: HTML
    if let device = login.destinations.first(where: { $0.kind == "device" }) {
      way = devicePanel(device)
    } else if let url = login.destinations.first(where: { $0.kind == "browser" })?.url.flatMap(Location.init) {
      way = """
        <div class="panel"><h2>In this browser</h2>
        <p>The provider's page opens in a new tab. This page shows the result.</p>
        <p class="controls"><a class="button main" id="go" target="_blank" rel="noopener noreferrer" \
        href="\(url.text, limit: Location.limit)">Continue at \(login.provider, limit: 64)</a></p></div>
        <div class="panel"><h2>On another device</h2><p>Scan a code with your phone, or type it there.</p>
        \(form("/login/other", [("id", login.id)] + fields, "<button>Use another device</button>"))</div>

        """
    } else {
      way = Parts.message(
        "warn", "this sign-in cannot be completed in this browser",
        "Run `grantctl login \(login.provider) \(login.account)` in a terminal.")
    }
    return View(
      title: "Sign in to \(login.account)", section: .home,
      lead: "<p class=\"lead\">Waiting for you. This ends \(TimeText.until(login.expiresAt, now: now)).</p>",
      main: """
        \(warnings)<div class="panels">\(way)</div>
        <div class="controls">\(form("/login/cancel", [("id", login.id)], "<button class=\"quiet\">Cancel</button>"))</div>

        """, reload: 4)
  }

  private func devicePanel(_ device: Destination) -> HTML {
    let address = device.verification_uri ?? ""
    let complete = device.verification_uri_complete
    let code = device.user_code ?? ""
    return """
      <div class="panel narrow"><h2>On another device</h2>
      <p>Open this address there, and enter the code:</p>
      <p class="address"><bdi>\(address)</bdi></p><p class="code" id="code"><bdi>\(code, limit: 64)</bdi></p>
      \(complete.flatMap { QRCode($0) }.map(symbol))</div>

      """
  }

  /// The symbol as one path: a square for each dark module, with the quiet zone of the standard.
  private func symbol(_ code: QRCode) -> HTML {
    var path: HTML = ""
    for y in 0..<code.size {
      for x in 0..<code.size where code.isDark(x, y) { path += "M\(x + 4) \(y + 4)h1v1h-1z" }
    }
    let size = code.size + 8
    return """
      <svg class="qr" viewBox="0 0 \(size) \(size)" role="img" aria-label="QR code of the address with the code">\
      <rect width="\(size)" height="\(size)" fill="#fff"/><path d="\(path)" fill="#000"/></svg>
      """
  }

  /// Ends this sign-in, and starts one with a code.
  func loginOnOtherDevice() async -> HTTPReply {
    if let id = form["id"], visit.logins.contains(where: { $0.id == id }) {
      _ = await call(LoginCancel.self, .init(login_id: id))
    }
    return await startLogin(isDevice: true)
  }

  func cancelLogin() async -> HTTPReply {
    guard let id = form["id"], visit.logins.contains(where: { $0.id == id }) else {
      return page(.notFound, status: .notFound)
    }
    if case .failure(let error) = await call(LoginCancel.self, .init(login_id: id)), error.reason != .unknownLogin {
      return page(.failed("Not cancelled", error, section: .home))
    }
    return .seeOther("/")
  }
}
