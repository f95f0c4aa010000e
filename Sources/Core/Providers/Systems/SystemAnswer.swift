import FoundationEssentials
import Grants
import OAuth

// Lenient reading of responses from systems without OAuth: each omits different members.

extension JSON {
  /// A nonempty string, or a number as written: systems write identifiers as either.
  var scalar: String? {
    switch self {
    case .string(let text): text.isEmpty ? nil : text
    case .number(let text): text
    case .null, .bool, .array, .object: nil
    }
  }
}

extension [String: JSON] {
  func text(_ name: String) -> String? { self[name]?.scalar }

  /// The first text or number at one of these dotted paths.
  func first(at paths: [String]) -> String? {
    for path in paths {
      var value: JSON? = .object(self)
      for name in path.split(separator: ".") { value = value?.dictionary?[String(name)] }
      if let text = value?.scalar { return text }
    }
    return nil
  }
}

extension HTTPResponse {
  /// The maximum length of a displayed text in Unicode scalars, and the maximum number of fields of a refusal.
  static let longestWords = 512
  static let mostFields = 32

  var isSuccess: Bool { (200..<300).contains(status) }

  /// The body, parsed leniently: a duplicate member must not fail a login.
  var json: JSON? { JSON.lenient(body)?.value }

  /// The members of a JSON object; empty if the body is another value.
  var members: [String: JSON] { json?.dictionary ?? [:] }

  /// The system's message for users.
  var words: String? {
    let members = members
    let own = ["message", "error_message", "error_description", "error", "detail"].lazy
      .compactMap { members.text($0) }.first
    // Usually an object with one member per field.
    let errors = members.text("errors").flatMap { $0 == own ? nil : $0 }
    let texts = [own, errors].compactMap(\.self)
    return texts.isEmpty ? nil : texts.joined(separator: " ").printable(limit: Self.longestWords)
  }

  /// The status and the system's message.
  var account: String { words.map { "\($0) (HTTP \(status))" } ?? "HTTP \(status)" }

  /// Errors by field: `errors` of a refusal. Each value is a text or a list of texts.
  var fields: [String: [String]] {
    let members = members
    guard let errors = members["errors"]?.dictionary ?? members["fields"]?.dictionary else { return [:] }
    var fields: [String: [String]] = [:]
    for (name, value) in errors.sorted(by: { $0.key < $1.key }).prefix(Self.mostFields) {
      let texts = (value.array ?? [value]).compactMap(\.scalar).prefix(Self.mostFields)
      fields[name.printable(limit: 128)] = texts.map { $0.printable(limit: Self.longestWords) }
    }
    return fields
  }

  /// The failure for a refusal without a system-specific meaning.
  var refusal: ProviderFailure {
    switch status {
    case 300..<400:
      return .misconfigured(
        message:
          "the server answers with a redirect (HTTP \(status)), which is not followed: write the address that it "
          + "leads to as base_url", nil)
    case 429:
      return .rateLimited(message: "the server limits the request rate: \(account)", nil, retryAfter: retryAfter)
    case 408, 503: return .tryLater(message: "the server is busy: \(account)", nil, retryAfter: retryAfter)
    case 500...: return .unclear(message: "the server is unavailable: \(account)", retryAfter: retryAfter)
    case 400..<500: return .invalid(message: "the server refuses: \(account)", nil)
    default: return unusable("the body is not what was asked for")
    }
  }

  /// A successful response with unusable content, such as a network's sign-in page.
  func unusable(_ why: String) -> ProviderFailure {
    let type = mediaType.isEmpty ? "no content type" : mediaType.printable(limit: 100)
    return .unclear(
      message: "the server's answer (HTTP \(status), \(type)) cannot be used: \(why)", retryAfter: retryAfter)
  }

  /// The result of a logout. An unknown session has already ended.
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
  /// Sets a JSON object as the body.
  func carrying(_ members: [String: JSON]) -> HTTPRequest {
    var request = self
    request.body = Data(JSON.object(members).serialized(sorted: true))
    return request
  }

  /// Adds the headers that the request does not have yet.
  func adding(_ more: [Header]) -> HTTPRequest {
    var request = self
    let own = Set(headers.map { $0.name.lowercased() })
    request.headers += more.filter { !own.contains($0.name.lowercased()) }
    return request
  }
}
