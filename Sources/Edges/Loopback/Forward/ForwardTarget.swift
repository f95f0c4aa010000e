import Broker
import FoundationEssentials
import Grants
import NIOHTTP1
import OAuth

/// The destination of a request below `/forward/`.
struct ForwardTarget: Equatable {
  static let prefix = "/forward/"

  var account: String
  /// Another origin of the account than that of its API base.
  var host: String?
  /// Path and query.
  var target: String

  /// - Parameter uri: the request's target; nil if it is below `/forward/` and has no account.
  init?(_ uri: String) {
    guard uri.hasPrefix(Self.prefix) else { return nil }
    let rest = uri.dropFirst(Self.prefix.utf8.count)
    let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
    var account = String(rest[..<end])
    if account.utf8.contains(UInt8(ascii: "%")) {
      guard let decoded = FormEncoding.unescape(account.utf8, plus: UInt8(ascii: "+")) else { return nil }
      account = decoded
    }
    guard AccountName(rawValue: account) != nil else { return nil }
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

  /// Whether every server reads the path in the same way.
  var isPlain: Bool { PlainPath.isPlain(target: target) }

  /// The URL through the broker of a redirect within the account's origins; nil: it leads elsewhere.
  ///
  /// - Parameters:
  ///   - location: as the server wrote it, possibly relative to the request's URL.
  ///   - origins: the origins that the account's token may go to.
  func redirect(_ location: String, of requested: URL, base: URL?, origins: Set<String>) -> String? {
    // A text that a client could read as another URL.
    guard location.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\\") }) else { return nil }
    guard let url = URL(string: location, relativeTo: requested)?.absoluteURL else { return nil }
    let origin = HTTPRequest(purpose: .resource, method: "GET", url: url).origin
    guard origins.contains(origin), url.user == nil, url.password == nil else { return nil }
    let path = url.path(percentEncoded: true)
    var target = path.isEmpty ? "/" : path
    if let query = url.query(percentEncoded: true) { target += "?" + query }
    if let fragment = url.fragment(percentEncoded: true) { target += "#" + fragment }
    // All characters of an account's name stand for themselves in a path (RFC 3986 §3.3).
    let name = account
    if let base, HTTPRequest(purpose: .resource, method: "GET", url: base).origin == origin {
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
  private static let dropped = HeaderNames(CallerHeaders.refused)
  private static let droppedOfAnswer = HeaderNames([
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "set-cookie",
    "set-cookie2", "www-authenticate", "proxy-authenticate", "authentication-info", "dpop-nonce", "location", "alt-svc",
    "strict-transport-security", "clear-site-data",
  ])

  static func request(_ headers: HTTPHeaders) -> [HTTPRequest.Header] {
    let named = named(headers)
    return headers.compactMap { name, value in
      dropped.contains(name) || named?.contains(name) == true ? nil : .init(name, value)
    }
  }

  /// The head of a request with the account's token.
  ///
  /// - Parameter bodyLength: bytes; nil: unknown.
  static func head(_ request: AuthorizedRequest, bodyLength: Int?) -> HTTPRequestHead {
    var headers = HTTPHeaders()
    headers.reserveCapacity(request.headers.count + 2)
    headers.add(name: "Host", value: request.basis.server.authority)
    for header in request.headers { headers.add(name: header.name, value: header.value) }
    if let header = framing(request.method, bodyLength: bodyLength) {
      headers.add(name: header.name, value: header.value)
    }
    return HTTPRequestHead(
      version: .http1_1, method: HTTPMethod(rawValue: request.method), uri: request.target, headers: headers)
  }

  /// The header that frames the body; nil: none is needed.
  static func framing(_ method: String, bodyLength: Int?) -> HTTPRequest.Header? {
    switch bodyLength {
    case nil: return HTTPRequest.Header("Transfer-Encoding", "chunked")
    // RFC 9110 §8.6: a method that usually has a body announces even an empty one.
    case 0?: return ["POST", "PUT", "PATCH"].contains(method) ? HTTPRequest.Header("Content-Length", "0") : nil
    case let length?: return HTTPRequest.Header("Content-Length", String(length))
    }
  }

  /// The client cannot authenticate itself, but it must learn which scope its token lacks (RFC 6750 §3.1).
  private static func isScopeChallenge(_ name: String, _ value: String) -> Bool {
    name.lowercased() == "www-authenticate" && value.contains("insufficient_scope")
  }

  /// What of an answer's headers the client gets, without the token.
  static func answer(_ headers: HTTPHeaders, _ filter: TokenFilter) -> HTTPHeaders {
    let named = named(headers)
    var passed = HTTPHeaders()
    passed.reserveCapacity(headers.count + 1)
    for (name, value) in headers {
      guard !droppedOfAnswer.contains(name) || isScopeChallenge(name, value), named?.contains(name) != true,
        filter.isClean(name)
      else { continue }
      passed.add(name: name, value: filter.cleaned(value))
    }
    return passed
  }

  /// Those that Connection names; nil: it is not there.
  private static func named(_ headers: HTTPHeaders) -> HeaderNames? {
    guard headers.contains(name: "Connection") else { return nil }
    return HeaderNames(headers[canonicalForm: "Connection"].map(String.init))
  }
}

/// Names to be found whatever their case, without making another text of each header's.
struct HeaderNames: Sendable {
  /// Folded, by their length.
  private var names: [Int: [[UInt8]]] = [:]

  init(_ names: [String]) {
    for name in names { self.names[name.utf8.count, default: []].append(name.utf8.map(Self.folded)) }
  }

  /// In lower case, an underscore as a hyphen.
  private static func folded(_ byte: UInt8) -> UInt8 {
    switch byte {
    case 0x41...0x5A: byte | 0x20
    case UInt8(ascii: "_"): UInt8(ascii: "-")
    default: byte
    }
  }

  func contains(_ name: String) -> Bool {
    guard let candidates = names[name.utf8.count] else { return false }
    return candidates.contains { candidate in
      zip(name.utf8, candidate).allSatisfy { own, wanted in Self.folded(own) == wanted }
    }
  }
}
