import FoundationEssentials
import OAuth

/// What a server's answer to an authorization request without cookies means.
enum AuthorizationAnswer: Equatable {
  /// A sign-in page, or a redirect to one.
  case accepted
  /// A redirect within the server's origin.
  case leads(HTTPRequest)
  /// An error: the answer in words, and the server's text.
  case refused(String, String)
  case unavailable(status: Int)
  /// The answer concerns the missing browser: a sentence without its subject.
  case unclear(String)

  /// Longest page that is searched for an error, in bytes.
  private static let longestPage = 64 << 10

  init(_ response: HTTPResponse, to request: HTTPRequest, redirectURI: RedirectURI) {
    let page = String(decoding: response.body.prefix(Self.longestPage), as: UTF8.self)
    switch response.status {
    case 300..<400: self = Self.redirect(response, request, redirectURI)
    case 429, 500...: self = .unavailable(status: response.status)
    case 400..<500:
      let text = Self.text(page, response)
      let wants = text.lowercased()
      // Protection against programs, and pages that need a cookie of an earlier one.
      if response.header("cf-mitigated") != nil || wants.contains("enable javascript") || wants.contains("cookies") {
        self = .unclear("answers programs with HTTP \(response.status), so that only the sign-in shows it")
      } else {
        self = .refused("HTTP \(response.status)", text)
      }
    default:
      if let error = Self.jsonError(response) {
        self = .refused("an error", error)
      } else if let code = Self.entraError(page) {
        self = .refused("an error page", code)
      } else {
        self = .accepted
      }
    }
  }

  private static func redirect(
    _ response: HTTPResponse, _ request: HTTPRequest, _ redirectURI: RedirectURI
  ) -> AuthorizationAnswer {
    guard let location = response.header("Location"), location.utf8.count <= 8192,
      let target = URL(string: location, relativeTo: request.url)?.absoluteURL
    else { return .refused("HTTP \(response.status) without a target", "") }
    let address = ReturnedAddress(target.absoluteString)
    func value(_ name: String) -> String? { address.value(name) ?? address.fragmentValue(name) }
    if let error = value("error") {
      let text = [error, value("error_description")].compactMap(\.self).joined(separator: ": ")
      return .refused("an error", text)
    }
    if address.isAt(redirectURI) { return .accepted }
    // Google's error page has its code and text in a message of this parameter.
    if let encoded = value("authError") {
      let bytes = decodeBase64URL(encoded.replacing("+", with: "-").replacing("/", with: "_").filter { $0 != "=" })
      return .refused("an error page", bytes.map { words(of: $0) } ?? "")
    }
    guard let next = request.redirected(by: response) else { return .accepted }
    return .leads(next)
  }

  /// Runs of printable ASCII.
  private static func words(of bytes: Data) -> String {
    String(decoding: bytes.map { (0x20..<0x7F).contains($0) ? $0 : 0x20 }, as: UTF8.self)
      .split(separator: " ").joined(separator: " ")
  }

  private static func jsonError(_ response: HTTPResponse) -> String? {
    guard response.mediaType.hasSuffix("json"), let members = JSON(message: response.body)?.dictionary else {
      return nil
    }
    guard case .string(let code)? = members["error"] else { return nil }
    guard case .string(let description)? = members["error_description"] else { return code }
    return "\(code): \(description)"
  }

  /// The error code of a page of Microsoft Entra, which has status 200.
  private static func entraError(_ page: String) -> String? {
    guard let start = page.firstRange(of: "AADSTS")?.lowerBound else { return nil }
    return String(page[start...].prefix { $0 != "<" && $0 != "\"" && $0 != "\\" }.prefix(200))
  }

  /// The text of an error page or the error of a JSON body.
  private static func text(_ page: String, _ response: HTTPResponse) -> String {
    if let error = jsonError(response) { return error }
    guard response.mediaType.hasPrefix("text/") || response.mediaType.contains("html") else { return "" }
    return response.mediaType == "text/plain"
      ? page.prefix(1024).split(whereSeparator: \.isWhitespace)
        .joined(separator: " ") : visible(page)
  }

  /// A page without its markup, scripts and styles.
  static func visible(_ page: String) -> String {
    var text: [UInt8] = []
    let bytes = Array(page.utf8)
    var index = 0
    while index < bytes.count {
      guard bytes[index] == UInt8(ascii: "<") else {
        text.append(bytes[index])
        index += 1
        continue
      }
      let tag = String(decoding: bytes[index...].prefix(8), as: UTF8.self).lowercased()
      let name = tag.dropFirst().prefix(while: \.isLetter)
      let end = ["script", "style", "title"].contains(name) ? Array("</\(name)".utf8) : nil
      if let end { index = Self.find(end, in: bytes, from: index) ?? bytes.count }
      index = (bytes[min(index, bytes.count)...].firstIndex(of: UInt8(ascii: ">")) ?? bytes.count - 1) + 1
      text.append(UInt8(ascii: " "))
    }
    return String(decoding: text, as: UTF8.self).split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  private static func find(_ word: [UInt8], in bytes: [UInt8], from start: Int) -> Int? {
    guard bytes.count >= word.count, start <= bytes.count - word.count else { return nil }
    return (start...(bytes.count - word.count)).first { index in
      word.indices.allSatisfy { bytes[index + $0] | 0x20 == word[$0] | 0x20 }
    }
  }
}
