import Broker
import NIOHTTP1

/// An answer, with the headers that every page has, or for a provider those that mean something to a machine.
struct Response {
  var head: HTTPResponseHead
  var body: String?

  /// - Parameter withBody: false for an answer to HEAD, whose headers speak of the same page (RFC 9110 §9.3.2).
  init(_ page: Page, withBody: Bool = true) {
    self.init(html: page.html, status: page.status, policy: Self.policy, more: page.headers)
    if !withBody { body = nil }
  }

  /// Asks for the fragment of an address.
  static let fragmentPage = Response(
    html: FragmentPage.html, status: .ok,
    policy: policy + "; script-src '\(FragmentPage.scriptHash)'; connect-src 'self'")

  private init(html: String, status: HTTPResponseStatus, policy: String, more: [(String, String)] = []) {
    var headers = Self.common
    headers.add(name: "Content-Security-Policy", value: policy)
    headers.add(name: "Content-Type", value: "text/html; charset=utf-8")
    headers.add(name: "Content-Length", value: "\(html.utf8.count)")
    for (name, value) in more { headers.add(name: name, value: value) }
    self.init(head: HTTPResponseHead(version: .http1_1, status: status, headers: headers), body: html)
  }

  /// A refused logout request. A machine reads it: there is nothing to show.
  init(_ refusal: Refusal, withBody: Bool = true) {
    let json = refusal.json
    var headers = Self.bare
    headers.add(name: "Content-Type", value: "application/json")
    headers.add(name: "Content-Length", value: "\(json.utf8.count)")
    for (name, value) in refusal.extraHeaders.sorted(by: { $0.key < $1.key }) { headers.add(name: name, value: value) }
    head = HTTPResponseHead(version: .http1_1, status: refusal.status, headers: headers)
    body = withBody ? json : nil
  }

  /// OpenID Connect Back-Channel Logout §2.8.
  init(_ outcome: LogoutOutcome) {
    switch outcome {
    case .taken: self = .logoutTaken
    case .refused(let reason): self.init(Refusal(status: .badRequest, description: reason))
    case .unavailable: self.init(Refusal.unavailable)
    }
  }

  private static let logoutTaken = {
    var headers = bare
    headers.add(name: "Content-Length", value: "0")
    return Response(head: HTTPResponseHead(version: .http1_1, status: .ok, headers: headers), body: nil)
  }()

  /// No page and no error.
  static let noContent = Response(
    head: HTTPResponseHead(version: .http1_1, status: .noContent, headers: common), body: nil)

  private init(head: HTTPResponseHead, body: String?) {
    self.head = head
    self.body = body
  }

  /// Without a word on what a browser may do: none reads it.
  private static let bare: HTTPHeaders = [
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Connection": "close",
  ]

  private static let policy =
    "default-src 'none'; style-src '\(Stylesheet.hash)'; img-src data:; base-uri 'none'; form-action 'none'; "
    + "frame-ancestors 'none'"

  private static let common: HTTPHeaders = [
    // The address has a code in it: neither the page nor where it was may be kept or passed on.
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    // One request a connection, so that the end is quick.
    "Connection": "close",
  ]
}
