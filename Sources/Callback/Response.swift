import NIOHTTP1

/// An answer, with the headers that every page has.
struct Response {
  var head: HTTPResponseHead
  var body: String?

  /// - Parameter withBody: false for an answer to HEAD, whose headers speak of the same page (RFC 9110 §9.3.2).
  init(_ page: Page, withBody: Bool = true) {
    let html = page.html
    var headers = Self.common
    headers.add(name: "Content-Type", value: "text/html; charset=utf-8")
    headers.add(name: "Content-Length", value: "\(html.utf8.count)")
    for (name, value) in page.headers { headers.add(name: name, value: value) }
    head = HTTPResponseHead(version: .http1_1, status: page.status, headers: headers)
    body = withBody ? html : nil
  }

  /// No page and no error.
  static let noContent = Response(
    head: HTTPResponseHead(version: .http1_1, status: .noContent, headers: common), body: nil)

  private init(head: HTTPResponseHead, body: String?) {
    self.head = head
    self.body = body
  }

  private static let common: HTTPHeaders = [
    // The address has a code in it: neither the page nor where it was may be kept or passed on.
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy":
      "default-src 'none'; style-src '\(Stylesheet.hash)'; img-src data:; base-uri 'none'; form-action 'none'; "
      + "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    // One request a connection, so that the end is quick.
    "Connection": "close",
  ]
}
