import NIOHTTP1

/// Classifies a request by its head: only the page's own pages may send requests.
struct PageCheck {
  enum Classification: Equatable {
    case accepted
    /// The browser loads it in advance.
    case speculative
    case foreignHost
    /// Another page sent it, or shows it in a frame.
    case foreignPage
    case wrongMethod
  }

  var port: Int

  /// The one name of the page. `localhost` and `[::1]` would have cookies of their own.
  var host: String { "127.0.0.1:\(port)" }
  var origin: String { "http://\(host)" }

  func classification(of head: HTTPRequestHead) -> Classification {
    let headers = head.headers
    guard headers["Host"].count == 1, headers.first(name: "Host")?.lowercased() == host else { return .foreignHost }
    guard [.GET, .HEAD, .POST].contains(head.method) else { return .wrongMethod }
    if isSpeculative(headers) { return .speculative }
    guard isOwn(headers, head) else { return .foreignPage }
    return .accepted
  }

  /// `Sec-Purpose` (Fetch §3.2.8), and what browsers sent before it.
  private func isSpeculative(_ headers: HTTPHeaders) -> Bool {
    ["Sec-Purpose", "Purpose", "X-Moz"].contains { name in
      headers[name].contains { $0.lowercased().contains("prefetch") || $0.lowercased().contains("prerender") }
    }
  }

  /// By Fetch Metadata (W3C) and `Origin` (RFC 6454 §7). Pages on other ports of this machine are of the same site, so only
  /// the same origin counts; `none` is the user's own navigation.
  private func isOwn(_ headers: HTTPHeaders, _ head: HTTPRequestHead) -> Bool {
    let origins = headers["Origin"]
    guard origins.allSatisfy({ $0 == origin }), origins.count <= 1 else { return false }
    if head.method == .POST, origins.isEmpty { return false }
    let sites = headers["Sec-Fetch-Site"]
    guard sites.count <= 1 else { return false }
    switch sites.first {
    case nil, "same-origin": break
    case "none": guard head.method != .POST else { return false }
    default: return false
    }
    switch headers.first(name: "Sec-Fetch-Dest") {
    case "iframe", "frame", "embed", "object", "fencedframe": return false
    default: return true
    }
  }
}

extension HTTPRequestHead {
  /// Without the query.
  var path: Substring { uri.prefix { $0 != "?" } }
  var query: Substring { uri.dropFirst(path.count + 1) }

  /// The value of a cookie; nil: there is none, or there are two of this name (RFC 6265 §5.4).
  func cookie(_ name: String) -> String? {
    let values = headers["Cookie"].flatMap { $0.split(separator: ";") }.compactMap { pair -> String? in
      let parts = pair.drop { $0 == " " }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      return parts.count == 2 && parts[0] == name ? String(parts[1]) : nil
    }
    return values.count == 1 ? values[0] : nil
  }
}
