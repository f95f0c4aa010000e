import Foundation

extension Page {
  static func home(issuer: String) -> Self {
    Self(
      title: "Demo provider",
      content: """
        <h1>Demo provider</h1>
        <p>An OpenID Connect provider for trying grantd. Its issuer is <code>\(issuer)</code>.</p>
        <ul><li><a href="/.well-known/openid-configuration">Discovery document</a></li>
        <li><a href="/device">Connect a device</a></li>
        <li><a href="/_control/stats">Statistics</a></li>
        <li><a href="/_control/fault">Faults on demand</a></li></ul>
        """)
  }

  static func problem(_ text: String) -> Self {
    Self(
      title: "This cannot go on",
      content: """
        <h1>This cannot go on</h1>
        <p role="alert">\(text)</p>
        <p class="hint">Close this page and start again from the application.</p>
        """)
  }

  static var signedOut: Self {
    Self(title: "Signed out", content: "<h1>Signed out</h1><p>You may close this page.</p>")
  }

  /// Sign-in and consent in one. The request travels in hidden fields, so that the server keeps nothing for it.
  static func consent(_ asked: AuthorizationRequest, userName: String, problem: String?) -> Self {
    let answers: Set = ["username", "decision"]
    let hidden = asked.raw.pairs.filter { !answers.contains($0.name) }.reduce("" as HTML) {
      $0 + "<input type=\"hidden\" name=\"\($1.name)\" value=\"\($1.value)\">\n"
    }
    let scopes = (asked.scopes.isEmpty ? ["openid"] : asked.scopes).reduce("" as HTML) {
      $0 + "<li>\(describe($1))</li>\n"
    }
    let alert: HTML = problem.map { "<p class=\"bad\" role=\"alert\" id=\"problem\">\($0)</p>" } ?? ""
    let invalid: HTML = problem == nil ? "" : " aria-invalid=\"true\""
    let back = URLComponents(string: asked.redirectURI).map { $0.host ?? $0.scheme ?? "" } ?? ""
    let offersSignUp = asked.dialect == .dropbox && asked.form["disable_signup"] != "true"
    let signUp: HTML = offersSignUp ? " Or create an account first." : ""
    return Self(
      title: "Sign in for \(asked.client.id)",
      content: """
        <h1>Sign in</h1>
        <p><strong>\(asked.client.id)</strong> asks for access to your account.</p>
        \(alert)
        <form method="post" action="\(asked.path)">
        \(hidden)<label for="username">User name</label>
        <input id="username" name="username" value="\(userName)" required autofocus autocomplete="username" \
        autocapitalize="none" spellcheck="false" maxlength="64" aria-describedby="who"\(invalid)>
        <p class="hint" id="who">alice, bob, or user- and a number</p>
        <h2>It will be able to</h2>
        <ul>
        \(scopes)</ul>
        <div class="row">
        <button class="yes" type="submit" name="decision" value="allow">Allow</button>
        <button type="submit" name="decision" value="deny" formnovalidate>Deny</button>
        </div>
        </form>
        <p class="hint">You will be sent back to <code>\(back)</code>.\(signUp)</p>
        """)
  }

  private static func describe(_ scope: String) -> HTML {
    switch scope {
    case "openid": "know who you are"
    case "profile": "see your name"
    case "email": "see your email address"
    case "offline_access": "keep access while you are away"
    default: "use <code>\(scope)</code>"
    }
  }
}

extension Page {
  /// Where a person answers a device (RFC 8628 §3.3).
  static func device(code: String, problem: String?) -> Self {
    let alert: HTML = problem.map { "<p class=\"bad\" role=\"alert\" id=\"problem\">\($0)</p>" } ?? ""
    return Self(
      title: "Connect a device",
      content: """
        <h1>Connect a device</h1>
        <p>Allow this only if the device in front of you shows this very code.</p>
        \(alert)
        <form method="post" action="/device">
        <label for="user_code">Code</label>
        <input id="user_code" name="user_code" value="\(code)" required autofocus autocomplete="off" \
        autocapitalize="characters" spellcheck="false" maxlength="16">
        <label for="username">User name</label>
        <input id="username" name="username" value="alice" required autocomplete="username" \
        autocapitalize="none" spellcheck="false" maxlength="64" aria-describedby="who">
        <p class="hint" id="who">alice, bob, or user- and a number</p>
        <div class="row">
        <button class="yes" type="submit" name="decision" value="allow">Allow</button>
        <button type="submit" name="decision" value="deny" formnovalidate>Deny</button>
        </div>
        </form>
        """)
  }

  static func deviceAnswered(isAllowed: Bool) -> Self {
    Self(
      title: isAllowed ? "Device connected" : "Device refused",
      content: """
        <h1>\(isAllowed ? "Device connected" : "Device refused")</h1>
        <p>You may close this page and go back to the device.</p>
        """)
  }
}
