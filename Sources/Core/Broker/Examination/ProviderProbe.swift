import FoundationEssentials
import OAuth

/// One request of a check: its result, its duration, and the server's clock.
struct ProviderProbe: Sendable {
  var request: HTTPRequest
  var result: Result<HTTPResponse, TransportError>
  var took: Duration
  /// The wall clock when the answer came.
  var endedAt: Timestamp

  var response: HTTPResponse? { try? result.get() }

  /// `https://id.example:8443`.
  var origin: String { Self.origin(request.url) }

  static func origin(_ url: URL) -> String {
    "\(url.scheme ?? "")://\(url.host ?? "")" + (url.port.map { ":\($0)" } ?? "")
  }

  /// How far this machine's clock is ahead of the server's; negative: behind. Only what neither the road nor the whole
  /// seconds of `Date` explain: the server read its clock between the request and the answer.
  var skew: Duration? {
    guard let date = response?.date else { return nil }
    let ahead = endedAt - took - (date + .seconds(1))
    let behind = endedAt - date
    return ahead > .zero ? ahead : min(behind, .zero)
  }
}

extension TransportError {
  /// The next step for an administrator.
  ///
  /// - Parameter section: of the provider that has the URL; nil: none, since it is being added. Only for a provider that
  ///   exists the broker repeats the request.
  func hint(for url: URL, section: String?) -> String {
    let place = section.map { " in \($0)" } ?? ""
    let again = section == nil ? "" : " The broker tries again itself."
    let host = url.host ?? "the provider"
    let port = url.port ?? (url.scheme == "http" ? 80 : 443)
    switch cause {
    case .nameLookup:
      return "Correct \(host)\(place), or check the network: `getent hosts \(host)` should print an address."
    case .refused:
      return "Nothing listens at port \(port) of \(host): correct the URL\(place), or start the server.\(again)"
    case .unreachable: return "Look at the network, the VPN and the firewall: `ping \(host)`, `ip route`."
    case .silence:
      return
        "A firewall or proxy may swallow it, or the provider hangs: `curl -v \(url.absoluteString)` shows where it "
        + "stops."
    case .certificate:
      return "See it with `openssl s_client -connect \(host):\(port) -servername \(host)`. For a private authority set "
        + "\(section.map { "tls_ca_file in \($0)" } ?? "--ca-file"), or add it with `update-ca-certificates` and restart "
        + "grantd. Is the date right (timedatectl)?"
    case .tls:
      return
        "Does https answer at port \(port) of \(host)? `openssl s_client -connect \(host):\(port)` shows what does."
    case .reach:
      return "Its server's metadata name an address of another network. Write a [provider.NAME] if that is intended."
    case .proxy:
      return "Correct \(url.scheme ?? "https")_proxy in [proxy], start the proxy, or permit \(host):\(port) in it. "
        + "`no_proxy = [\"\(host)\"]` there requests \(host) directly."
    case .proxyCredentials:
      return "Set the user in \(url.scheme ?? "https")_proxy (`http://USER@…`) and password_file in [proxy]."
    case .other:
      return "`curl -v \(url.absoluteString)` shows what answers.\(again)"
    }
  }
}
