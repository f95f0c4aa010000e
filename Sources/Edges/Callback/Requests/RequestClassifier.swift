import FoundationEssentials
import NIOHTTP1

/// Decides the action for a request from its head only (RFC 9110, RFC 9112 §3).
struct RequestClassifier {
  enum RequestClassification: Equatable {
    /// A browser brought an address back: absolute, as it asked for it.
    case callback(url: String)
    /// A browser opens the short address of a login.
    case link(token: String)
    /// Our page at that address brings the fragment; the body is still to come.
    case fragment(url: String)
    case page(Page)
    /// A provider's logout request begins; its body is still to come.
    case logout(provider: String)
    case refusal(Refusal)
    /// Nothing to show and nothing to report.
    case nothing
  }

  /// Headers by which browsers and intermediaries announce that the page is not shown yet.
  static let purposeHeaders = ["Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"]
  static let speculativePurposes = ["prefetch", "prerender", "preview"]

  let port: Int
  let paths: Paths
  /// Bytes. The target has no more than its line.
  let requestLineLimit: Int
  /// Bytes of a logout request's body.
  let formLimit: Int
  /// Bytes of a fragment.
  let fragmentLimit: Int

  func ruling(on head: HTTPRequestHead) -> RequestClassification {
    let target = head.uri
    guard target.utf8.count <= requestLineLimit else { return .page(.requestLineTooLong) }
    let path = target.prefix { $0 != "?" }
    if LogoutPath.leads(path), !paths.contains(String(path)) { return logoutRuling(on: head, path: path) }
    let hosts = head.headers["Host"]
    guard hosts.count == 1, let host = hosts.first else { return .page(.badRequest) }
    guard let site = paths.site(of: host, port: port) else { return .page(.foreignHost) }
    // Browsers send the origin form, and never a fragment.
    guard target.hasPrefix("/"), !target.utf8.contains(UInt8(ascii: "#")) else { return .page(.badRequest) }
    guard site.contains(String(path)) else {
      if site.isLoopback, let token = LinkPath.token(in: path) { return linkRuling(on: head, token: token) }
      return path == "/favicon.ico" && head.method == .GET ? .nothing : .page(.notFound)
    }
    switch head.method {
    case .HEAD: return .page(.idle)
    case .GET: break
    case .POST: return fragmentRuling(on: head, from: site, url: "\(site.origin)\(target)")
    default: return .page(.methodNotAllowed)
    }
    return objection(to: head) ?? .callback(url: "\(site.origin)\(target)")
  }

  /// Only a user's browser uses up the link, and no preview.
  private func linkRuling(on head: HTTPRequestHead, token: String) -> RequestClassification {
    switch head.method {
    case .HEAD: .page(.idle)
    case .GET: objection(to: head) ?? .link(token: token)
    default: .page(.methodNotAllowed)
    }
  }

  /// Nil: a user opens a page.
  private func objection(to head: HTTPRequestHead) -> RequestClassification? {
    if isSpeculative(head.headers) { return .page(.speculative) }
    return isNavigation(head.headers) ? nil : .page(.embedded)
  }

  static func isForm(_ headers: HTTPHeaders) -> Bool {
    let types = headers["Content-Type"]
    guard types.count == 1, let type = types[0].split(separator: ";").first else { return false }
    // With white space around it (RFC 9110 §5.6.3).
    return type.lowercased().split { $0 == " " || $0 == "\t" } == ["application/x-www-form-urlencoded"]
  }

  /// Bytes that a body is announced to have; 0 where nothing is said.
  static func length(_ headers: HTTPHeaders) -> Int {
    headers["Content-Length"].map { Int($0) ?? .max }.max() ?? 0
  }

  /// A prefetch must not use up the code: the user has not opened the page, and the answer may never be shown.
  private func isSpeculative(_ headers: HTTPHeaders) -> Bool {
    Self.purposeHeaders.contains { name in
      headers[name].contains { value in
        let value = value.lowercased()
        return Self.speculativePurposes.contains { value.contains($0) }
      }
    }
  }

  /// An authorization response is a page that a user sees (RFC 8252 §6), not an image or frame of another page.
  /// Browsers without Fetch Metadata send no such header, and pass.
  private func isNavigation(_ headers: HTTPHeaders) -> Bool {
    headers["Sec-Fetch-Dest"].allSatisfy { $0.lowercased() == "document" }
  }
}
