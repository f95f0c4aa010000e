public import FoundationEssentials
public import OAuth

/// A server, and how it is reached: requests for the same share their connections.
public struct UpstreamServer: Sendable, Hashable {
  public let pool: ConnectionPool
  public let tls: TLSChoice?
  public let isSecure: Bool
  /// In lower case, without brackets.
  public let host: String
  public let port: Int

  /// Nil: the address names no server.
  public init?(_ url: URL, over pool: ConnectionPool, tls: TLSChoice?) {
    let host = (url.host() ?? "").lowercased().filter { $0 != "[" && $0 != "]" }
    guard !host.isEmpty, let scheme = url.scheme?.lowercased(), ["http", "https"].contains(scheme) else { return nil }
    self.pool = pool
    self.tls = tls
    isSecure = scheme == "https"
    self.host = host
    port = url.port ?? (isSecure ? 443 : 80)
  }

  /// As the Host header has it (RFC 9110 §7.2).
  public var authority: String {
    let name = host.contains(":") ? "[\(host)]" : host
    return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
  }
}

extension URL {
  /// Path and query, as a request line has them (RFC 9112 §3.2.1).
  public var requestTarget: String {
    let path = path(percentEncoded: true)
    return (path.isEmpty ? "/" : path) + (query(percentEncoded: true).map { "?" + $0 } ?? "")
  }
}
