import OAuth

/// `[proxy]` as written.
struct ProxyDraft {
  var https: ProxyText?
  var http: ProxyText?
  var exceptions: ProxyExceptions?
  var passwordFile: String?
  var passwordCredential: String?
}

/// The URL of a proxy; nil: an empty text, which means none.
struct ProxyText: Sendable {
  var proxy: HTTPProxy?
}

extension Sections {
  static let proxy = Section<ProxyDraft>(
    header: "[proxy]",
    meaning:
      "The HTTP proxy for requests of the broker. Requests to this machine never use it. For keys that are not set "
      + "here, a user instance uses the environment: `https_proxy` or `HTTPS_PROXY`, `http_proxy`, and `no_proxy` or "
      + "`NO_PROXY`. See "
      + "[Behind an HTTP proxy](proxy.md).",
    keys: [
      Key(
        "https_proxy", .proxyURL, \.https, standard: "none",
        "The proxy for https URLs, by CONNECT: `\"http://proxy.example.com:3128\"`, with `USER@` before the host if the proxy "
          + "requires a user. An empty text: none."),
      Key("http_proxy", .proxyURL, \.http, standard: "none", "The proxy for http URLs, written the same way."),
      Key(
        "no_proxy", .proxyExceptions, \.exceptions, standard: "[]",
        "Hosts that are requested directly: `example.com` with its subdomains, `.example.com` for the subdomains, addresses, "
          + "networks such as `10.0.0.0/8`, each except networks also with a port; `*`: all. Names are not looked up."),
      Key(
        "password_file", .path, \.passwordFile,
        "The file with the password of the user in these URLs; no other user may be able to read it."),
      Key("password_credential", .name, \.passwordCredential, "The systemd credential with that password."),
    ])
}

extension Form where Output == ProxyText {
  /// The text is never quoted: it may contain a password.
  fileprivate static let proxyURL = Form<String>.text.map(
    "the URL of a proxy, such as \"http://proxy.example.com:3128\""
  ) {
    text throws(Unfit) in
    guard !text.isEmpty else { return ProxyText() }
    let proxy: HTTPProxy
    do throws(HTTPProxy.Failure) { proxy = try HTTPProxy(text) } catch { throw .because(error.words) }
    guard proxy.password == nil else {
      throw .because(
        "the URL has a password, and others may read this file",
        suggestion: "keep USER@, put the password in a file of mode 0600 and write password_file, or use "
          + "password_credential")
    }
    return ProxyText(proxy: proxy)
  }
}

extension HTTPProxy.Failure {
  /// Completes "https_proxy …: ".
  fileprivate var words: String {
    switch self {
    case .notURL: "not the URL of a proxy, such as http://proxy.example.com:3128"
    case .scheme: "only proxies with an http URL are supported, not https or SOCKS"
    case .path: "the URL of a proxy has no path"
    }
  }
}

extension Form where Output == ProxyExceptions {
  fileprivate static let proxyExceptions = Form<[String]>.list(.name, of: "hosts").map { texts throws(Unfit) in
    var exceptions = ProxyExceptions()
    for text in texts where !exceptions.insert(text) {
      throw .found(
        "one with \(quoted(text))",
        suggestion: "write a name, an address or a network such as 10.0.0.0/8, without a scheme")
    }
    return exceptions
  }
}

extension ProxyDraft {
  /// The proxies of the configuration and, for a user instance, of the environment.
  func proxies(_ table: [String: Item], sources: Settings.Sources, report: inout ConfigurationReport) -> HTTPProxies {
    let title = Sections.proxy.header
    let password = SecretReader(title: title, sources: sources).read(
      "password", file: passwordFile, credential: passwordCredential, table, report: &report)
    let written = [https, http].compactMap { $0?.proxy }
    if let place = (table["password_file"] ?? table["password_credential"])?.place,
      !written.contains(where: { $0.user != nil })
    {
      report.problem(
        "\(title) has a password, and no URL with a user", at: place,
        suggestion: "write https_proxy = \"http://USER@HOST:PORT\"")
    }
    func complete(_ text: ProxyText?, _ names: [String]) -> HTTPProxy? {
      guard let text else { return Self.proxy(of: names, sources, &report) }
      var proxy = text.proxy
      if proxy?.user != nil { proxy?.password = password }
      return proxy
    }
    return HTTPProxies(
      // A CGI program gets HTTP_PROXY from a request's header `Proxy`.
      http: complete(http, ["http_proxy"]), https: complete(https, ["https_proxy", "HTTPS_PROXY"]),
      exceptions: exceptions ?? Self.exceptions(of: ["no_proxy", "NO_PROXY"], sources, &report))
  }

  private static func variable(_ names: [String], _ sources: Settings.Sources) -> (name: String, value: String)? {
    names.lazy.compactMap { name in sources.environment[name].map { (name, $0) } }.first { !$0.1.isEmpty }
  }

  private static func proxy(of names: [String], _ sources: Settings.Sources, _ report: inout ConfigurationReport)
    -> HTTPProxy?
  {
    guard let (name, value) = variable(names, sources) else { return nil }
    do throws(HTTPProxy.Failure) {
      return try HTTPProxy(value)
    } catch {
      report.warning(
        "\(name) of the environment is ignored: \(error.words); set it in [proxy]", at: FileLocation(file: sources.file)
      )
      return nil
    }
  }

  private static func exceptions(
    of names: [String], _ sources: Settings.Sources, _ report: inout ConfigurationReport
  ) -> ProxyExceptions {
    var exceptions = ProxyExceptions()
    guard let (name, value) = variable(names, sources) else { return exceptions }
    var ignored: [String] = []
    for text in value.split(whereSeparator: { $0 == "," || $0.isWhitespace }) where !exceptions.insert(String(text)) {
      ignored.append(quoted(String(text)))
    }
    if !ignored.isEmpty {
      let words = ignored.prefix(3).joined(separator: ", ")
      report.warning(
        "\(name) of the environment has entries that are ignored: \(words)", at: FileLocation(file: sources.file))
    }
    return exceptions
  }
}
