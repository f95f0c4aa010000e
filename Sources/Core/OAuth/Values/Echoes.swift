import FoundationEssentials

extension HTTPResponse {
  /// Replaces a secret.
  public static let redacted = "(redacted)"
  /// Bytes. Shorter secrets could match unrelated text.
  private static let shortestSecret = 8
  private static let confidential: Set<String> = [
    "code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion", "device_code", "token",
    "subject_token", "actor_token", "password", "request", "token_exchange", "key",
  ]

  /// The response without secrets of the request: some servers repeat a rejected token or secret in error messages,
  /// which are logged, shown and stored.
  ///
  /// A token response is left unchanged: it may repeat the refresh token that stays valid, or contain it as a part of
  /// the next one. A resource's response is returned to the caller and must not contain the token, regardless of the
  /// status.
  public func withoutEchoes(of request: HTTPRequest) -> HTTPResponse {
    let isSuccess = (200..<300).contains(status)
    let isResource = request.purpose == .resource
    let mayRepeat = isSuccess && !isResource
    guard isResource || !body.isEmpty,
      !mayRepeat || (request.purpose == .token && !hasTokens)
    else { return self }
    var response = self
    for secret in request.secrets where secret.utf8.count >= Self.shortestSecret {
      if isResource {
        for index in response.headers.indices {
          response.headers[index].value = response.headers[index].value.replacing(secret, with: Self.redacted)
        }
      }
      for form in SecretForms.of(secret) { response.replace(Data(form)) }
    }
    return response
  }

  /// Why ``withoutEchoes(of:)`` may miss a secret in this response to a caller's request; nil: it cannot.
  public var unsearchable: String? {
    // Such as the response to HEAD: there is no content to search.
    guard !body.isEmpty else { return nil }
    let codings = headers.filter { $0.name.lowercased() == "content-encoding" }.map(\.value)
    return Self.unsearchable(
      status: status, coding: codings.isEmpty ? nil : codings.joined(separator: ","), type: header("Content-Type"))
  }

  /// The same for a response with a body.
  ///
  /// - Parameters:
  ///   - coding: its Content-Encoding.
  ///   - type: its Content-Type.
  public static func unsearchable(status: Int, coding: String?, type: String?) -> String? {
    let codings = (coding ?? "").split(separator: ",").map { $0.trimmed.lowercased() }
    if codings.contains(where: { !$0.isEmpty && $0 != "identity" }) {
      return "it is compressed although uncompressed data was requested"
    }
    let type = type ?? ""
    guard status != 206, !type.hasPrefix(ignoringCase: "multipart/byteranges") else {
      return "it is a partial response to a request for all of it"
    }
    guard !isWide(type) else { return "its text is not in UTF-8" }
    return nil
  }

  /// Whether a media type names UTF-16, UTF-32 or UTF-7. Called for every forwarded response.
  private static func isWide(_ type: String) -> Bool {
    var matched = 0
    for byte in type.utf8 {
      let lower = byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte
      if matched == 4 {
        if [UInt8(ascii: "1"), UInt8(ascii: "3"), UInt8(ascii: "7")].contains(lower) { return true }
        matched = 0
      }
      switch (matched, lower) {
      case (_, UInt8(ascii: "u")): matched = 1
      case (1, UInt8(ascii: "t")), (2, UInt8(ascii: "f")), (3, UInt8(ascii: "-")): matched += 1
      default: matched = 0
      }
    }
    return false
  }

  private var hasTokens: Bool {
    ["access_token", "refresh_token"].contains { body.position(of: Data($0.utf8)) != nil }
  }

  private mutating func replace(_ secret: Data) {
    let mark = Data(Self.redacted.utf8)
    var start = body.startIndex
    // Continue after the replacement, so the loop terminates.
    while let found = body[start...].position(of: secret) {
      body.replaceSubrange(found..<found + secret.count, with: mark)
      start = found + mark.count
    }
  }

  fileprivate static func isConfidential(_ name: String) -> Bool { confidential.contains(name) }
}

extension Data {
  /// The first position of these bytes, which are not empty.
  fileprivate func position(of searched: Data) -> Index? {
    guard let first = searched.first, count >= searched.count else { return nil }
    let offset = withUnsafeBytes { bytes in
      searched.withUnsafeBytes { searched in
        (0...bytes.count - searched.count).first { start in
          bytes[start] == first && bytes[start..<start + searched.count].elementsEqual(searched)
        }
      }
    }
    return offset.map { startIndex + $0 }
  }
}

extension HTTPRequest {
  /// The credentials in its headers and body, longest first: one may be part of another.
  package var secrets: [String] {
    var found: [String] = []
    for header in headers {
      switch header.name.lowercased() {
      case "dpop": found.append(header.value)
      case "cookie":
        found += header.value.split(separator: ";").compactMap {
          $0.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).dropFirst().first.map(String.init)
        }
      case "authorization":
        let credentials = header.value.split(separator: " ", maxSplits: 1).last.map(String.init) ?? ""
        found += [credentials] + Self.password(basic: credentials)
      default: continue
      }
    }
    // A caller may see its own data in a request to a resource.
    guard purpose != .resource else { return found.sorted { $0.utf8.count > $1.utf8.count } }
    if let body, let members = JSON(message: body)?.dictionary {
      found += Self.confidential(members)
    } else if let body, let parameters = FormEncoding.decode(String(decoding: body, as: UTF8.self)) {
      found += parameters.filter { HTTPResponse.isConfidential($0.name) }.map(\.value)
    }
    return found.sorted { $0.utf8.count > $1.utf8.count }
  }

  /// The credentials of a body, including nested objects. The depth of JSON is limited.
  private static func confidential(_ members: [String: JSON]) -> [String] {
    var found: [String] = []
    for (name, value) in members {
      switch value {
      case .string(let text): if HTTPResponse.isConfidential(name) { found.append(text) }
      case .object: found += confidential(value.dictionary ?? [:])
      case .null, .bool, .number, .array: continue
      }
    }
    return found
  }

  /// The value as sent, and before form encoding (RFC 6749 §2.3.1).
  private static func password(basic credentials: String) -> [String] {
    guard let bytes = Data(base64Encoded: credentials) else { return [] }
    let pair = String(decoding: bytes, as: UTF8.self)
    guard let colon = pair.utf8.firstIndex(of: UInt8(ascii: ":")) else { return [] }
    let password = String(pair[pair.utf8.index(after: colon)...])
    return [password] + (FormEncoding.decode("p=\(password)")?.map(\.value) ?? [])
  }
}

extension String {
  fileprivate func hasPrefix(ignoringCase prefix: StaticString) -> Bool {
    guard utf8.count >= prefix.utf8CodeUnitCount else { return false }
    return prefix.withUTF8Buffer { prefix in
      zip(utf8, prefix).allSatisfy { own, wanted in (own >= 0x41 && own <= 0x5A ? own | 0x20 : own) == wanted }
    }
  }
}
