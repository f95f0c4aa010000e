import Crypto
import Foundation

/// Markup in which every interpolated text is escaped, as only markup itself is taken as it stands.
struct HTML: Sendable, ExpressibleByStringInterpolation {
  var markup: String

  init(stringLiteral value: String) { markup = value }
  init(stringInterpolation: StringInterpolation) { markup = stringInterpolation.markup }

  struct StringInterpolation: StringInterpolationProtocol {
    var markup = ""

    init(literalCapacity: Int, interpolationCount: Int) {}
    mutating func appendLiteral(_ literal: String) { markup += literal }
    mutating func appendInterpolation(_ html: HTML) { markup += html.markup }
    mutating func appendInterpolation(_ text: some StringProtocol) {
      for character in text.unicodeScalars {
        switch character {
        case "&": markup += "&amp;"
        case "<": markup += "&lt;"
        case ">": markup += "&gt;"
        case "\"": markup += "&quot;"
        case "'": markup += "&#39;"
        default: markup.unicodeScalars.append(character)
        }
      }
    }
  }

  static func + (left: HTML, right: HTML) -> HTML { "\(left)\(right)" }
}

/// A page for a person.
struct Page: Sendable {
  var title: String
  var content: HTML

  var html: HTML {
    """
    <!DOCTYPE html>
    <html lang="en">
    <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>\(title)</title>
    <style>\(Self.style)</style>
    </head>
    <body>
    <main>
    \(content)
    </main>
    <footer>grantd demo provider. It runs on this machine only and asks for no password.</footer>
    </body>
    </html>

    """
  }

  /// No scripts, no frames, nothing loaded; the one style sheet is named by its hash.
  static let policy: String = {
    let hash = Data(SHA256.hash(data: Data(style.markup.utf8))).base64EncodedString()
    return "default-src 'none'; style-src 'sha256-\(hash)'; base-uri 'none'; frame-ancestors 'none'"
  }()

  private static let style: HTML = """
    :root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--paper:#fff;--back:#eef1f5;--line:#d0d7de;--act:#0b5fce;\
    --on:#fff;--bad:#a40e26}
    @media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b3;--paper:#161b22;--back:#0d1117;--line:#3d444d;\
    --act:#6cb0ff;--on:#0d1117;--bad:#ff8f8f}}
    *{box-sizing:border-box}
    body{margin:0;min-height:100vh;display:flex;flex-direction:column;align-items:center;justify-content:center;\
    gap:1.5rem;padding:1.5rem;background:var(--back);color:var(--ink);font:1rem/1.5 system-ui,sans-serif}
    main{width:100%;max-width:26rem;padding:2rem;background:var(--paper);border:1px solid var(--line);border-radius:1rem;\
    box-shadow:0 8px 24px rgb(0 0 0/.08)}
    h1{margin:0 0 .5rem;font-size:1.4rem;line-height:1.25}
    p{margin:.5rem 0 1rem}
    h2{margin:1.25rem 0 .25rem;font-size:1rem}
    ul{margin:0 0 1.25rem;padding-left:1.25rem}
    li{margin:.25rem 0}
    code{overflow-wrap:anywhere}
    label{display:block;margin-bottom:.25rem;font-weight:600}
    input{width:100%;padding:.6rem .75rem;font:inherit;color:inherit;background:transparent;border:1px solid var(--soft);\
    border-radius:.5rem}
    .hint,footer{color:var(--soft);font-size:.875rem}
    .bad{color:var(--bad);font-weight:600}
    .row{display:flex;gap:.75rem;margin-top:1.25rem}
    button{flex:1;padding:.7rem 1rem;font:inherit;font-weight:600;cursor:pointer;border-radius:.5rem;\
    border:1px solid var(--act);background:transparent;color:var(--act)}
    button.yes{background:var(--act);color:var(--on)}
    :focus-visible{outline:3px solid var(--act);outline-offset:2px}
    """
}

extension Page {
  static func home(issuer: String) -> Self {
    Self(
      title: "Demo provider",
      content: """
        <h1>Demo provider</h1>
        <p>An OpenID Connect provider for trying grantd. Its issuer is <code>\(issuer)</code>.</p>
        <ul><li><a href="/.well-known/openid-configuration">Discovery document</a></li>
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
    let hidden = asked.form.pairs.filter { !answers.contains($0.name) }.reduce("" as HTML) {
      $0 + "<input type=\"hidden\" name=\"\($1.name)\" value=\"\($1.value)\">\n"
    }
    let scopes = (asked.scopes.isEmpty ? ["openid"] : asked.scopes).reduce("" as HTML) {
      $0 + "<li>\(describe($1))</li>\n"
    }
    let alert: HTML = problem.map { "<p class=\"bad\" role=\"alert\" id=\"problem\">\($0)</p>" } ?? ""
    let invalid: HTML = problem == nil ? "" : " aria-invalid=\"true\""
    let back = URLComponents(string: asked.redirectURI).map { $0.host ?? $0.scheme ?? "" } ?? ""
    return Self(
      title: "Sign in for \(asked.client.id)",
      content: """
        <h1>Sign in</h1>
        <p><strong>\(asked.client.id)</strong> asks for access to your account.</p>
        \(alert)
        <form method="post" action="/authorize">
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
        <p class="hint">You will be sent back to <code>\(back)</code>.</p>
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

extension Response {
  static func page(_ page: Page, status: Int = 200) -> Self {
    Self(
      status: status,
      headers: [
        ("Content-Security-Policy", Page.policy), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
      ],
      body: .text(page.html.markup, type: "text/html; charset=utf-8"))
  }
}
