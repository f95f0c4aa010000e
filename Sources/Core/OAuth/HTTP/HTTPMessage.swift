public import FoundationEssentials

/// An HTTP request as a value. Its body may contain secrets, so it prints only its method and its URL without query.
public struct HTTPRequest: Sendable, Equatable {
  /// The purpose of the request: decides deadlines, size limits and the content of log lines.
  public enum Purpose: String, Sendable {
    case discovery, keys, token, revocation, userinfo, par, device, introspection, registration, resource
  }

  public var purpose: Purpose
  public var method: String
  public var url: URL
  public var headers: [Header]
  public var body: Data?
  /// The signatures that ``signed(at:identifier:nonce:)`` makes for each transmission.
  public var signatures: [Signature] = []
  /// The TLS settings; nil: the system's authorities, and no client certificate.
  public var tls: TLSChoice?
  /// Nothing is sent after this time since boot, which includes time in which the machine or the process was stopped;
  /// nil: any time.
  public var latestSend: Duration?

  public struct Header: Sendable, Equatable {
    public var name: String
    public var value: String

    public init(_ name: String, _ value: String) {
      self.name = name
      self.value = value
    }

    /// Whether the value has no control character but the tab (RFC 9110 §5.5).
    public var isSendable: Bool { value.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) } }
  }

  public init(purpose: Purpose, method: String, url: URL, headers: [Header] = [], body: Data? = nil) {
    self.purpose = purpose
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
  }

  /// Scheme, host and port, in lower case and always with the port (RFC 6454 §4): the scope of a DPoP nonce.
  public var origin: String {
    let scheme = (url.scheme ?? "").lowercased()
    let host = (URI(url.absoluteString)?.host ?? "").lowercased()
    return "\(scheme)://\(host):\(url.port ?? (scheme == "http" ? 80 : 443))"
  }
}

/// Certificates for a connection, as PEM: authorities in addition to the system's, and a client certificate (RFC 8705).
/// It prints nothing.
public struct TLSChoice: Sendable, Hashable {
  /// The authorities to trust in addition to the system's.
  public var authorities: Data?
  /// The client certificate and its intermediate certificates.
  public var certificates: Data?
  /// The private key of the client certificate.
  public var key: Secret?

  public init(authorities: Data? = nil, certificates: Data? = nil, key: Secret? = nil) {
    self.authorities = authorities
    self.certificates = certificates
    self.key = key
  }
}

extension TLSChoice: Redacted {
  public var description: String { "TLS choice" }
}

extension HTTPRequest {
  /// The same request at the URL of a redirect, if that has the same origin (RFC 9110 §15.4). Only for requests without
  /// secrets.
  public func redirected(by response: HTTPResponse) -> HTTPRequest? {
    guard [301, 302, 303, 307, 308].contains(response.status), method == "GET",
      let location = response.header("Location"), location.utf8.count <= 8192,
      let target = URL(string: location, relativeTo: url)?.absoluteURL
    else { return nil }
    var next = self
    next.url = target
    return next.origin == origin && target.user == nil ? next : nil
  }
}

extension HTTPRequest: Redacted {
  public var description: String {
    "\(method) \(url.scheme ?? "")://\(url.host ?? "")\(url.port.map { ":\($0)" } ?? "")\(url.path)"
  }
}

/// An HTTP response as a value; the transport limits the size of its body. The body may contain secrets and never
/// prints.
public struct HTTPResponse: Sendable, Equatable {
  public var status: Int
  public var headers: [HTTPRequest.Header]
  public var body: Data

  public init(status: Int, headers: [HTTPRequest.Header] = [], body: Data = Data()) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// The first value of a header; names are compared without case (RFC 9110 §5.1).
  public func header(_ name: String) -> String? {
    headers.first { $0.name.lowercased() == name.lowercased() }?.value
  }

  /// The media type without parameters, in lower case; empty if there is none.
  public var mediaType: String {
    let value = header("Content-Type") ?? ""
    return value.prefix { $0 != ";" }.trimmed.lowercased()
  }
}

extension HTTPResponse: Redacted {
  public var description: String { "HTTP \(status) \(mediaType) (\(body.count) bytes)" }
}
