import BrokerAPI
import HTTPServer
import NIOHTTP1
import Pages

/// Signing out: a question, and the result of each step.
extension Ask {
  func confirmLogout() async -> HTTPReply {
    guard let name = query["account"] else { return page(.notFound, status: .notFound) }
    switch await call(AccountGet.self, .init(account: name)) {
    case .failure(let error): return page(.failed("Sign out", error, section: .home))
    case .success(let account):
      let who: HTML = account.identity.map { " (<bdi>\($0.bestName, limit: 128)</bdi>)" } ?? ""
      return page(
        View(
          title: "Sign out of \(name)", section: .home,
          main: """
            <div class="panel narrow"><p>grantd revokes the tokens of <strong><bdi>\(name)</bdi></strong>\(who) at \
            <bdi>\(account.provider)</bdi>, and forgets the account. Programs that use it stop working.</p>
            \(form("/logout", [("account", name)], """
              <p class="check"><input type="checkbox" id="end" name="end_session" value="1">\
              <label for="end">Also end the session at the provider</label></p>
              <div class="controls"><button class="danger">Sign out</button><a class="button" href="/">Keep it</a></div>
              """))</div>

            """, isStill: true))
    }
  }

  func logout() async -> HTTPReply {
    guard let name = form["account"] else { return page(.notFound, status: .badRequest) }
    let params = AccountLogout.Params(account: name, end_session: form["end_session"] == nil ? nil : true)
    switch await call(AccountLogout.self, params) {
    case .failure(let error): return page(.failed("Not signed out", error, section: .home), status: .conflict)
    case .success(let result):
      let rows = result.steps.map(row)
      let session: HTML =
        result.end_session_url.flatMap(Location.init).map { url in
          """
          <p class="controls"><a class="button main" target="_blank" rel="noopener noreferrer" \
          href="\(url.text, limit: Location.limit)">End the session at the provider</a></p>

          """
        } ?? ""
      return page(
        View(
          title: "Signed out of \(name)", section: .home,
          main: """
            <div class="panel narrow"><ul class="steps">\(rows)</ul>\(session)\
            <p class="controls"><a class="button" href="/">Accounts</a></p></div>

            """, said: "Signed out of \(name)", isStill: true))
    }
  }

  private func row(_ step: AccountLogout.Step) -> HTML {
    let name: HTML =
      switch step.step {
      case "revoke_refresh_token": "Revoke the refresh token"
      case "revoke_access_token": "Revoke the access token"
      case "revoke_session": "Sign out at the provider"
      case "end_session": "End the session"
      case "forget": "Forget the account"
      default: "\(step.step)"
      }
    let (tone, result): (HTML, HTML) =
      switch step.result {
      case "done": ("good", "Done")
      case "queued": ("warn", "Not yet: it is tried again by itself")
      case "opened": ("neutral", "In your browser")
      case "unsupported": ("neutral", "The provider cannot do that")
      case "skipped": ("neutral", "Skipped")
      case "refused": ("bad", "Refused")
      default: ("neutral", "\(step.result)")
      }
    let message: HTML = step.message.map { "<p class=\"soft\"><bdi>\(Parts.sentence($0))</bdi></p>" } ?? ""
    return "<li><span>\(name)</span>\(Parts.badge(tone, result))\(message)</li>\n"
  }
}
