import NIOHTTP1

/// What of a request's head is refused before anything else of it is looked at.
struct HeadCheck {
  /// Nil: a Unix socket, to which no browser can be brought.
  var port: Int?
  var servesBrowsers = false
  /// Against DNS rebinding a host has to be one of these; with the port where that is not 80.
  static let hosts = ["127.0.0.1", "localhost", "[::1]"]

  /// The connection ends with it: who sends one such request sends others.
  func refusal(of head: HTTPRequestHead) -> HTTPReply? { reply(to: head)?.last() }

  private func reply(to head: HTTPRequestHead) -> HTTPReply? {
    if let reply = Self.framing(head) { return reply }
    let hosts = head.headers["Host"]
    guard hosts.count == 1 || (hosts.isEmpty && head.version == .http1_0) else {
      return HTTPReply(.badRequest, error: "bad_request", "a request has one Host header")
    }
    if let host = hosts.first, !isOurs(host) {
      return HTTPReply(
        .init(statusCode: 421, reasonPhrase: "Misdirected Request"), error: "misdirected",
        "this is not the host that was asked for", hint: "Use 127.0.0.1 with the port.")
    }
    // A page that a user opens could make the user's browser ask (RFC 6454, Fetch Metadata).
    let isBrowser =
      !servesBrowsers
      && head.headers.contains { name, _ in
        let name = name.lowercased()
        return name == "origin" || name.hasPrefix("sec-fetch-")
      }
    return isBrowser
      ? HTTPReply(
        .forbidden, error: "forbidden", "browsers are not served",
        hint: "A request has no Origin and no Sec-Fetch-… header.") : nil
  }

  private func isOurs(_ host: String) -> Bool {
    guard let port else { return true }
    let host = host.lowercased()
    return Self.hosts.contains { host == "\($0):\(port)" || (port == 80 && host == $0) }
  }

  /// Whatever two parsers could read as different messages (RFC 9112 §6.3, §11.2).
  private static func framing(_ head: HTTPRequestHead) -> HTTPReply? {
    let codings = head.headers["Transfer-Encoding"]
    let lengths = head.headers["Content-Length"]
    if !codings.isEmpty {
      guard lengths.isEmpty, head.version == .http1_1 else {
        return HTTPReply(.badRequest, error: "bad_request", "Transfer-Encoding beside a length, or in HTTP/1.0")
      }
      guard codings.count == 1, codings[0].lowercased() == "chunked" else {
        return HTTPReply(.notImplemented, error: "not_implemented", "the only transfer coding is chunked")
      }
    }
    guard lengths.count <= 1, lengths.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }) else {
      return HTTPReply(.badRequest, error: "bad_request", "a request has one Content-Length, in digits")
    }
    guard head.uri.hasPrefix("/") || (head.uri == "*" && head.method == .OPTIONS) else {
      return HTTPReply(
        .badRequest, error: "bad_request", "the target is not a path: this is not a proxy for other hosts")
    }
    if let expected = head.headers.first(name: "Expect"), expected.lowercased() != "100-continue" {
      return HTTPReply(.expectationFailed, error: "expectation_failed", "only 100-continue can be expected")
    }
    return nil
  }
}
