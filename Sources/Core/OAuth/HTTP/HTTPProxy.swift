import FoundationEssentials

/// An HTTP proxy: a host, a port, and the credentials for it (RFC 9110 §9.3.6, RFC 7617). It prints no password.
public struct HTTPProxy: Sendable, Hashable {
  /// In lower case, without brackets.
  public var host: String
  public var port: Int
  public var user: String?
  public var password: Secret?

  /// Why a text is not the URL of a proxy. The text itself may contain a password and is never quoted.
  public enum Failure: Error, Equatable {
    case notURL
    case scheme
    case path
  }

  /// Reads `http://user:password@proxy.example.com:3128`. Scheme, user, password and port are optional.
  public init(_ text: String) throws(Failure) {
    guard let uri = URI(text.contains("://") ? text : "http://\(text)") else { throw .notURL }
    guard uri.scheme.lowercased() == "http" else { throw .scheme }
    guard uri.path.isEmpty || uri.path == "/", uri.query == nil, uri.fragment == nil else { throw .path }
    let name = (uri.host ?? "").lowercased().filter { $0 != "[" && $0 != "]" }
    guard !name.isEmpty, !name.contains("%"), name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }), uri.port != 0 else {
      throw .notURL
    }
    host = name
    port = uri.port ?? 80
    guard let userinfo = uri.user, !userinfo.isEmpty else { return }
    let parts = userinfo.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    let decoded = parts.compactMap { FormEncoding.unescape($0.utf8, plus: UInt8(ascii: "+")) }
    guard decoded.count == parts.count, !decoded[0].isEmpty, !decoded[0].contains(":"),
      decoded.joined().unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7f })
    else { throw .notURL }
    user = decoded[0]
    if decoded.count == 2 { password = Secret(decoded[1]) }
  }

  /// For people: `proxy.example.com:3128`.
  public var authority: String { (host.contains(":") ? "[\(host)]" : host) + ":\(port)" }

  /// The value of `Proxy-Authorization`; nil: the proxy needs none.
  public var authorization: String? {
    guard let user else { return nil }
    // Exposed to be sent to the proxy.
    return "Basic " + Data("\(user):\(password?.exposed ?? "")".utf8).base64EncodedString()
  }
}

extension HTTPProxy: Redacted {
  public var description: String { authority }
}

/// The proxies for requests, by the scheme of the request's URL, and the hosts that are requested directly.
public struct HTTPProxies: Sendable, Hashable {
  public var http: HTTPProxy?
  public var https: HTTPProxy?
  public var exceptions: ProxyExceptions

  public init(http: HTTPProxy? = nil, https: HTTPProxy? = nil, exceptions: ProxyExceptions = .init()) {
    self.http = http
    self.https = https
    self.exceptions = exceptions
  }

  /// The proxy for a server; nil: the server is requested directly. Servers of this machine always are.
  ///
  /// - Parameter host: in lower case, without brackets.
  public func proxy(isSecure: Bool, host: String, port: Int) -> HTTPProxy? {
    guard let proxy = isSecure ? https : http else { return nil }
    let isLocal = AddressScope(host) == .machine || host == "localhost" || host.hasSuffix(".localhost")
    return isLocal || exceptions.contains(host: host, port: port) ? nil : proxy
  }
}
