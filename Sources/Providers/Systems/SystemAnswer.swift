import FoundationEssentials
import Grants
import OAuth

// How answers of systems are read that speak no OAuth: leniently, since each leaves out what it has not got.

extension JSONValue {
  /// A text that is not empty, or a number as it is written: systems write identifiers as either.
  var scalar: String? {
    switch self {
    case .string(let text): text.isEmpty ? nil : text
    case .number(let text): text
    case .null, .bool, .array, .object: nil
    }
  }

  var flag: Bool? { if case .bool(let value) = self { value } else { nil } }
}

extension [String: JSONValue] {
  func text(_ name: String) -> String? { self[name]?.scalar }

  /// The first of these dotted paths that leads to a text or a number.
  func first(at paths: [String]) -> String? {
    for path in paths {
      var value: JSONValue? = .object(self)
      for name in path.split(separator: ".") { value = value?.members?[String(name)] }
      if let text = value?.scalar { return text }
    }
    return nil
  }
}

extension HTTPResponse {
  /// The longest texts that are shown, in Unicode scalars, and the most fields of a refusal.
  static let longestWords = 512
  static let mostFields = 32

  var isSuccess: Bool { (200..<300).contains(status) }

  /// The body as most programs read it: a member that is there twice fails no login.
  var json: JSONValue? { JSONValue.lenient(body)?.value }

  /// The members of a JSON object; empty where the body is none.
  var members: [String: JSONValue] { json?.members ?? [:] }

  /// What the system says to people.
  var words: String? {
    let members = members
    let own = ["message", "error_message", "error_description", "error", "detail"].lazy
      .compactMap { members.text($0) }.first
    // Usually an object of fields.
    let errors = members.text("errors").flatMap { $0 == own ? nil : $0 }
    let texts = [own, errors].compactMap(\.self)
    return texts.isEmpty ? nil : texts.joined(separator: " ").printable(limit: Self.longestWords)
  }

  /// The status, and what the system says to people.
  var account: String { words.map { "\($0) (HTTP \(status))" } ?? "HTTP \(status)" }

  /// By field, what is wrong with it: `errors` of a refusal, where each may be a text or a list of them.
  var fields: [String: [String]] {
    let members = members
    guard let errors = members["errors"]?.members ?? members["fields"]?.members else { return [:] }
    var fields: [String: [String]] = [:]
    for (name, value) in errors.sorted(by: { $0.key < $1.key }).prefix(Self.mostFields) {
      let texts = (value.elements ?? [value]).compactMap(\.scalar).prefix(Self.mostFields)
      fields[name.printable(limit: 128)] = texts.map { $0.printable(limit: Self.longestWords) }
    }
    return fields
  }

  /// What a refusal means that has no meaning of its own in this system.
  var refusal: ProviderFailure {
    switch status {
    case 300..<400:
      return .misconfigured(
        message:
          "the server answers with a redirect (HTTP \(status)), which is not followed: write the address that it "
          + "leads to as base_url", nil)
    case 408, 429, 503: return .tryLater(message: "the server is busy: \(account)", nil, retryAfter: retryAfter)
    case 500...: return .unclear(message: "the server is out of order: \(account)", retryAfter: retryAfter)
    case 400..<500: return .invalid(message: "the server refuses: \(account)", nil)
    default: return unusable("the body is not what was asked for")
    }
  }

  /// A success that says nothing that can be used, such as a network's sign-in page.
  func unusable(_ why: String) -> ProviderFailure {
    let type = mediaType.isEmpty ? "no content type" : mediaType.printable(limit: 100)
    return .unclear(
      message: "the server's answer (HTTP \(status), \(type)) cannot be used: \(why)", retryAfter: retryAfter)
  }

  /// What came of a logout. A session that is no longer known has ended.
  var logoutOutcome: RevocationOutcome {
    switch status {
    case 200..<300, 401: .revoked
    case 408, 429, 500, 502...599: .retryLater(after: retryAfter)
    case 404, 405, 501: .unsupported
    default: .refused(nil)
    }
  }
}

extension HTTPRequest {
  /// With a JSON object as its body.
  func carrying(_ members: [String: JSONValue]) -> HTTPRequest {
    var request = self
    request.body = Data(JSONValue.object(members).serialized.utf8)
    return request
  }

  /// With those of these headers that it does not have.
  func adding(_ more: [Header]) -> HTTPRequest {
    var request = self
    let own = Set(headers.map { $0.name.lowercased() })
    request.headers += more.filter { !own.contains($0.name.lowercased()) }
    return request
  }
}
