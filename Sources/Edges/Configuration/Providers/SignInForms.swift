import FoundationEssentials
import OAuth
import Providers

// Tables within a provider's section.

extension Item.Value {
  /// The members of a table in a list, none but these.
  fileprivate func members(_ known: [String], required: [String]) throws(Unfit) -> [String: Item.Value] {
    guard case .table(let table) = self else { throw .found("one with \(kind)") }
    for (name, _) in table.inOrder where !known.contains(name) {
      throw .because(
        "unknown member \(quoted(name)); known are \(known.joined(separator: ", "))",
        suggestion: didYouMean(name, known))
    }
    for name in required where table[name] == nil { throw .because("a table has no \(quoted(name))") }
    return table.mapValues(\.value)
  }
}

extension Form {
  /// The member of a table, in its own form.
  fileprivate func read(_ name: String, in members: [String: Item.Value]) throws(Unfit) -> Output? {
    guard let value = members[name] else { return nil }
    do throws(Unfit) {
      return try read(value)
    } catch .found(let found, let suggestion) {
      throw .because("\(quoted(name)) must be \(expected), not \(found)", suggestion: suggestion)
    }
  }
}

extension Form {
  /// The same list without duplicate names.
  fileprivate func unique<Element>(
    _ what: String, _ name: @escaping @Sendable (Element) -> String
  ) -> Form where Output == [Element] {
    map { elements throws(Unfit) in
      var seen: Set<String> = []
      for element in elements where !seen.insert(name(element)).inserted {
        throw .because("the \(what) \(quoted(name(element))) is there twice")
      }
      return elements
    }
  }
}

extension Form where Output == [NativeApp] {
  static var apps: Form {
    list(app, of: "tables with app and url").unique("application") { $0.name }
  }

  private static var app: Form<NativeApp> {
    Form<NativeApp>(expected: "a table with app and url") { value throws(Unfit) in
      let members = try value.members(["app", "url", "style"], required: ["app", "url"])
      let name = try Form<String>.name.read("app", in: members) ?? ""
      guard name.utf8.count <= 64 else { throw .because("the name of an application has at most 64 bytes") }
      let style = try Form<NativeApp.Style>.word.read("style", in: members) ?? .oauth2
      let text = try Form<String>.name.read("url", in: members) ?? ""
      guard let url = opener(text, style) else {
        throw .because(
          "the application \(quoted(name)) cannot be opened by \(quoted(text))",
          suggestion: style == .dropbox
            ? "write a scheme of its own, and no query, such as dbapi-2://1/connect"
            : "write an https address, or one with a scheme of its own, without a fragment")
      }
      return NativeApp(name: name, url: url, style: style)
    }
  }

  /// What opens an application, and nothing that a browser would run.
  private static func opener(_ text: String, _ style: NativeApp.Style) -> URL? {
    guard let uri = RedirectURI(rawValue: text), !Form<String>.unfitSchemes.contains(uri.scheme) else { return nil }
    switch style {
    case .oauth2: guard uri.scheme != "http" || uri.isLoopback else { return nil }
    case .dropbox: guard !["http", "https"].contains(uri.scheme), !text.contains("?") else { return nil }
    }
    return URL(string: text, encodingInvalidCharacters: false)
  }
}

extension Form where Output == [SignInBridge] {
  static var bridges: Form {
    list(bridge, of: "tables with scheme and forward").unique("scheme") { $0.scheme }
  }

  private static var bridge: Form<SignInBridge> {
    Form<SignInBridge>(expected: "a table with scheme and forward") { value throws(Unfit) in
      let members = try value.members(
        ["scheme", "forward", "in_query", "in_fragment"], required: ["scheme", "forward"])
      let scheme = try Form<String>.name.read("scheme", in: members) ?? ""
      guard let uri = RedirectURI(rawValue: "\(scheme)://bridge"), uri.scheme == scheme.lowercased(),
        !Form<String>.unfitSchemes.union(["http", "https"]).contains(uri.scheme)
      else {
        throw .because("\(quoted(scheme)) is not a scheme of an application", suggestion: "write it as fb1234567890")
      }
      let text = try Form<String>.name.read("forward", in: members) ?? ""
      // Plain http, and its permission, is checked with the other URLs.
      guard let forward = Endpoint.url(text, allowInsecureHTTP: true), !text.contains("?") else {
        throw .because("\(quoted(text)) is not an https URL without user, query and fragment")
      }
      let more = Form<[String: String]>.parameters(reserved: ["code", "state"])
      return SignInBridge(
        scheme: scheme, forward: forward, inQuery: try more.read("in_query", in: members) ?? [:],
        inFragment: try more.read("in_fragment", in: members) ?? [:])
    }
  }
}

extension Form where Output == String {
  /// Schemes that mean something to every browser, and no application.
  fileprivate static var unfitSchemes: Set<String> {
    ["about", "blob", "data", "file", "ftp", "javascript", "vbscript", "view-source", "ws", "wss"]
  }
}

extension Form where Output == [String: APISettings.Meaning] {
  static var meanings: Form {
    let word = Form<APISettings.Meaning>.word
    return Form<[String: String]>.texts.map("a table of \(word.expected)") { table throws(Unfit) in
      var meanings: [String: APISettings.Meaning] = [:]
      for (name, text) in table.sorted(by: { $0.key < $1.key }) {
        guard let meaning = APISettings.Meaning(rawValue: text) else {
          throw .because(
            "\(quoted(name)) must be \(word.expected), not \(quoted(text))",
            suggestion: didYouMean(text, APISettings.Meaning.allCases.map(\.rawValue)))
        }
        meanings[name] = meaning
      }
      return meanings
    }
  }
}
