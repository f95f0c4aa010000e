import Broker
import FoundationEssentials
import Grants
import OAuth
import Providers

extension Form where Output == ProviderSettings.Redirect {
  /// `http://127.0.0.1/callback` stands for any port of the callback endpoint; other values are used unchanged.
  static var redirect: Form {
    Form<String>.name.map("the registered redirect URI") { text throws(Unfit) in
      let uri: RedirectURI
      do throws(RedirectURIError) {
        uri = try RedirectURI(text)
      } catch {
        throw .because(error.description)
      }
      guard uri.isLoopback, uri.port == nil else { return .fixed(uri) }
      guard let host = uri.host.flatMap(ProviderSettings.LoopbackHost.init), !text.contains("?"), !text.contains("@")
      else {
        throw .because(
          "a loopback address without a port must be http://127.0.0.1/…, http://[::1]/… or http://localhost/…")
      }
      return .loopback(host: host, path: uri.path)
    }
  }
}

extension Form where Output == String {
  /// In the form of `RedirectURI.origin`. A path has no meaning: the paths of redirect URIs are passed on unchanged.
  static var publicOrigin: Form {
    Form<String>.name.map("an address such as \"https://broker.example.com\"") { text throws(Unfit) in
      guard let uri = RedirectURI(rawValue: text), let origin = uri.origin else { throw .found(quoted(text)) }
      guard uri.scheme == "https" else {
        throw .found(quoted(text), suggestion: "browsers must come by https, since codes are in the addresses")
      }
      guard uri.path == "/", !text.contains(where: { "?@".contains($0) }) else {
        throw .found(quoted(text), suggestion: "write \"\(origin)\": each redirect_uri has its own path")
      }
      return origin
    }
  }
}

extension Form where Output == String {
  /// The URL of a client ID metadata document: https, with a path, without query and fragment.
  static var documentURL: Form {
    Form<String>.name.map("an https URL with a path, such as \"https://example.com/grantd.json\"") {
      text throws(Unfit) in
      guard let url = Endpoint.url(text, allowInsecureHTTP: false), url.scheme?.lowercased() == "https",
        url.query == nil, url.path.count > 1, text.utf8.count <= 2048
      else { throw .found(quoted(text)) }
      return text
    }
  }
}

extension Form where Output == Rotation {
  static var rotation: Form {
    let grace = Form<Duration>.duration(.seconds(1)...(.days(1)))
    let expected = "\"none\", \"strict\" or \"grace 30s\""
    return Form(expected: expected) { value throws(Unfit) in
      switch value {
      case .text("none"): return .none
      case .text("strict"): return .strict
      case .text(let text) where text.hasPrefix("grace "):
        return .grace(try grace.read(.text(String(text.dropFirst("grace ".count)))))
      case .text(let text):
        throw .found(quoted(text), suggestion: didYouMean(text, ["none", "strict", "grace 30s"]))
      case .table(let table):
        guard table.count == 1, let item = table["grace"] else {
          throw .found("a table with only grace", suggestion: "write rotation = { grace = \"30s\" }")
        }
        return .grace(try grace.read(item.value))
      default: throw .found(value.kind)
      }
    }
  }
}

extension Form where Output == [String: String] {
  /// Parameters of a request, none of which the broker itself sets.
  static func parameters(reserved: [String]) -> Form {
    texts.map { table throws(Unfit) in
      for name in table.keys.sorted() {
        guard !name.isEmpty else { throw .found("one with an empty name") }
        guard reserved.contains(name) else { continue }
        let advice =
          switch name {
          case "client_secret": "use client_secret_file or client_secret_credential"
          case "scope": "use scopes"
          case "request": "use request_object"
          case "request_uri": "use par"
          case "prompt", "resource", "client_id", "redirect_uri", "max_age": "use \(name) in the section itself"
          default: "remove it"
          }
        throw .because("\(quoted(name)) is set by the broker itself", suggestion: advice)
      }
      return table
    }
  }

  static var headers: Form {
    let own = ["accept", "authorization", "content-type", "dpop", "host", "content-length"]
    return texts.map("a table of headers") { table throws(Unfit) in
      for name in table.keys.sorted() {
        let isToken =
          !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && !"()<>@,;:\\\"/[]?={}".utf8.contains($0) }
        guard isToken else { throw .found("one with the name \(quoted(name))") }
        let folded = CallerHeaders.folded(name)
        guard !own.contains(folded) else {
          throw .because("\(quoted(name)) is set by the broker itself", suggestion: "remove it")
        }
        guard !CallerHeaders.ofConnection.contains(folded) else {
          throw .because("\(quoted(name)) belongs to the connection", suggestion: "remove it")
        }
      }
      return table
    }
  }
}
