import OAuth

/// The cookies that a sign-in system sets, for the later requests of the same login (RFC 6265). There is only one
/// origin, so domain and path do not matter.
struct Cookies: Sendable, Equatable {
  /// The maximum number of cookies, and the maximum length of one. Others are ignored (RFC 6265 §6.1).
  static let most = 32
  static let longest = 4096

  /// A cookie in the format of `Set-Cookie`.
  struct Cookie: Sendable, Equatable {
    var name: String
    var value: String
    /// The lifetime, counted from the response; nil: not specified. Zero: delete the cookie.
    var life: Duration?
  }

  private(set) var values: [String: String] = [:]

  init() {}

  /// Parses the format of ``header``.
  init(header: String) {
    for pair in header.split(separator: ";") {
      if let cookie = Self.pair(pair) { values[cookie.name] = cookie.value }
    }
  }

  /// The `Cookie` header (RFC 6265 §4.2.1); nil if there are no cookies.
  var header: String? {
    values.isEmpty ? nil : values.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: "; ")
  }

  mutating func store(_ response: HTTPResponse, at now: Timestamp) {
    for cookie in Self.all(in: response, at: now) { set(cookie) }
  }

  mutating func set(_ cookie: Cookie) {
    guard cookie.life.map({ $0 > .zero }) ?? true else {
      values[cookie.name] = nil
      return
    }
    guard values[cookie.name] != nil || values.count < Self.most else { return }
    values[cookie.name] = cookie.value
  }

  static func all(in response: HTTPResponse, at now: Timestamp) -> [Cookie] {
    response.headers.filter { $0.name.lowercased() == "set-cookie" }
      .compactMap { parse($0.value, at: response.date ?? now) }
  }

  /// Reads `name=value; Expires=…; Max-Age=…` (RFC 6265 §5.2).
  ///
  /// - Parameter now: the time on the sender's clock.
  static func parse(_ text: String, at now: Timestamp) -> Cookie? {
    let parts = text.split(separator: ";", omittingEmptySubsequences: false)
    guard text.utf8.count <= longest, let first = parts.first, var cookie = pair(first) else { return nil }
    var expires: Duration?
    var age: Duration?
    for part in parts.dropFirst() {
      let halves = part.split(separator: "=", maxSplits: 1).map { $0.trimmingSpace }
      guard halves.count == 2 else { continue }
      switch halves[0].lowercased() {
      case "max-age": age = Int64(halves[1]).map { .seconds(max(0, min($0, longestLife))) } ?? age
      case "expires":
        let date = halves[1].replacing("UTC", with: "GMT")
        expires = Timestamp(httpDate: date).map { max(.zero, $0 - now) } ?? expires
      default: continue
      }
    }
    cookie.life = age ?? expires.map { min($0, .seconds(longestLife)) }
    return cookie
  }

  /// Whether the value can be sent without escaping: no character ends the cookie or the header (RFC 6265 §4.1.1).
  static func isValue(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= longest
      && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"\",;\\".utf8.contains($0) }
  }

  /// Ten years; a longer lifetime is a mistake.
  private static let longestLife: Int64 = 10 * 365 * 86_400

  private static func pair(_ text: Substring) -> Cookie? {
    guard let equals = text.firstIndex(of: "=") else { return nil }
    let name = text[..<equals].trimmingSpace
    var value = text[text.index(after: equals)...].trimmingSpace
    if value.utf8.count >= 2, value.hasPrefix("\""), value.hasSuffix("\"") {
      value = String(value.dropFirst().dropLast())
    }
    guard isValue(name), !name.contains("="), value.isEmpty || isValue(value) else { return nil }
    return Cookie(name: name, value: value, life: value.isEmpty ? .zero : nil)
  }
}

extension Substring {
  fileprivate var trimmingSpace: String {
    String(drop { $0 == " " || $0 == "\t" }.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
  }
}
