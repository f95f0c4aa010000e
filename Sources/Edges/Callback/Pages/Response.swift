import Broker
import HTTPServer
import NIOCore
import NIOHTTP1
import Pages

// Answers with the headers of every page, or for a provider only those for a machine.
extension HTTPReply {
  init(_ page: Page) {
    self.init(html: page.html, status: page.status, policy: ContentPolicy.still, more: page.headers)
  }

  /// Asks for the fragment of an address.
  static let fragmentPage = HTTPReply(
    html: FragmentPage.html, status: .ok,
    policy: ContentPolicy.running(scriptHash: FragmentPage.scriptHash))

  private init(html: String, status: HTTPResponseStatus, policy: String, more: [(String, String)] = []) {
    var headers = Self.common
    headers.add(name: "Content-Security-Policy", value: policy)
    headers.add(name: "Content-Type", value: "text/html; charset=utf-8")
    for (name, value) in more { headers.add(name: name, value: value) }
    self.init(status, headers, body: ByteBuffer(string: html))
  }

  /// A refused logout request. A machine reads it: there is nothing to show.
  init(_ refusal: Refusal) {
    var headers = Self.bare
    headers.add(name: "Content-Type", value: "application/json")
    for (name, value) in refusal.extraHeaders.sorted(by: { $0.key < $1.key }) { headers.add(name: name, value: value) }
    self.init(refusal.status, headers, body: ByteBuffer(string: refusal.json))
  }

  /// OpenID Connect Back-Channel Logout §2.8.
  init(_ outcome: LogoutOutcome) {
    switch outcome {
    case .taken: self.init(.ok, Self.bare)
    case .refused(let reason): self.init(Refusal(status: .badRequest, description: reason))
    case .unavailable: self.init(Refusal.unavailable)
    }
  }

  /// No page and no error.
  static let noContent = HTTPReply(.noContent, common)

  /// Without headers for browsers: none reads it.
  private static let bare: HTTPHeaders = [
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
  ]

  private static let common: HTTPHeaders = [
    // The URL has a code: neither the page nor its URL may be kept or passed on.
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
  ]
}
