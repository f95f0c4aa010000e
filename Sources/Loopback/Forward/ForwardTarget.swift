import Broker
import FoundationEssentials
import Grants
import NIOHTTP1
import OAuth

/// Where a request below `/forward/` goes.
struct ForwardTarget: Equatable {
  static let prefix = "/forward/"

  var account: String
  /// Another origin of the account than that of its API base.
  var host: String?
  /// Path and query.
  var target: String

  /// - Parameter uri: the request's target; nil where it is below `/forward/` and names nothing.
  init?(_ uri: String) {
    guard uri.hasPrefix(Self.prefix) else { return nil }
    let rest = uri.dropFirst(Self.prefix.utf8.count)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    // `+` is itself in a path.
    let name = String(rest[..<end]).replacing("+", with: "%2B")
    guard let account = FormEncoding.decode(name)?.first?.name, AccountName(rawValue: account) != nil else {
      return nil
    }
    self.account = account
    var path = rest[end...]
    if path.hasPrefix("/@") {
      let name = path.dropFirst(2)
      let end = name.firstIndex { $0 == "/" || $0 == "?" } ?? name.endIndex
      // A host has a dot, a port or is this machine: `/@types/node` is a path.
      if name[..<end].contains(where: { $0 == "." || $0 == ":" }) || name[..<end] == "localhost" {
        host = name[..<end].lowercased()
        path = name[end...]
      }
    }
    target = path.hasPrefix("/") ? String(path) : "/" + path
  }

  /// Whether every server reads the path as the same: a step upwards, written in whatever way, may lead anywhere.
  var isPlain: Bool {
    let decoded = target.prefix { $0 != "?" }.lowercased().replacing("%2e", with: ".")
    let steps = decoded.replacing("%2f", with: "/").replacing("\\", with: "/").replacing("%5c", with: "/")
      .split(separator: "/")
    return !steps.contains { [".", ".."].contains($0.prefix { $0 != ";" }) }
  }

  /// Where a redirect within the account's origins is followed through the broker; nil: it leads elsewhere.
  ///
  /// - Parameters:
  ///   - location: as the server wrote it, also relative to the request's address.
  func redirect(_ location: String, of sent: AuthorizedRequest) -> String? {
    // What a client could read as another address than it is read here.
    guard location.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\\") }) else { return nil }
    guard let url = URL(string: location, relativeTo: sent.request.url)?.absoluteURL else { return nil }
    let origin = HTTPRequest(purpose: .resource, method: "GET", url: url).origin
    guard sent.basis.origins.contains(origin), url.user == nil, url.password == nil else { return nil }
    let path = url.path(percentEncoded: true)
    var target = path.isEmpty ? "/" : path
    if let query = url.query(percentEncoded: true) { target += "?" + query }
    if let fragment = url.fragment(percentEncoded: true) { target += "#" + fragment }
    // All characters of an account's name stand for themselves in a path (RFC 3986 §3.3).
    let name = account
    if let base = sent.basis.base, HTTPRequest(purpose: .resource, method: "GET", url: base).origin == origin {
      let own = base.path(percentEncoded: true)
      let prefix = own.hasSuffix("/") ? String(own.dropLast()) : own
      if target == prefix || target.hasPrefix(prefix + "/") || target.hasPrefix(prefix + "?") {
        return Self.prefix + name + target.dropFirst(prefix.count)
      }
    }
    let place = origin.drop { $0 != "/" }.drop { $0 == "/" }
    return Self.prefix + name + "/@" + place + target
  }
}

/// Which headers go through.
enum ForwardHeaders {
  /// RFC 9110 §7.6.1, and what names the client to the server or would keep an answer from being searched.
  private static let dropped: Set<String> = [
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect", "host",
    "content-length", "authorization", "proxy-authorization", "cookie", "cookie2", "dpop", "accept-encoding", "range",
    "if-range", "http2-settings",
    // With these a server may take the request for another one than was allowed.
    "x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url",
  ]
  private static let droppedOfAnswer: Set<String> = [
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "set-cookie",
    "set-cookie2", "www-authenticate", "proxy-authenticate", "authentication-info", "dpop-nonce", "location", "alt-svc",
    "strict-transport-security", "clear-site-data",
  ]

  static func request(_ headers: HTTPHeaders) -> [HTTPRequest.Header] {
    let named = named(headers)
    return headers.compactMap { name, value in
      let lower = name.lowercased()
      return dropped.contains(lower) || named.contains(lower) ? nil : .init(name, value)
    }
  }

  /// What of an answer's headers the client gets, without the token.
  static func answer(_ headers: HTTPHeaders, _ filter: TokenFilter) -> HTTPHeaders {
    let named = named(headers)
    var passed = HTTPHeaders()
    passed.reserveCapacity(headers.count + 1)
    for (name, value) in headers {
      let lower = name.lowercased()
      guard !droppedOfAnswer.contains(lower), !named.contains(lower), filter.cleaned(name) == name else { continue }
      passed.add(name: name, value: filter.cleaned(value))
    }
    return passed
  }

  /// Those that Connection names.
  private static func named(_ headers: HTTPHeaders) -> [String] {
    guard headers.contains(name: "Connection") else { return [] }
    return headers[canonicalForm: "Connection"].map { $0.lowercased() }
  }
}
