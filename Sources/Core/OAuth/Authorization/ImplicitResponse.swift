extension AuthorizationResponse {
  /// The token in the fragment (RFC 6749 §4.2.2), if this response belongs to the login. The implicit grant reveals
  /// tokens to any program that reads the URL, and RFC 9700 §2.1.2 advises against it: it is only for providers without
  /// an alternative and must be enabled in the configuration. There is never a refresh token.
  ///
  /// - Parameter url: the whole URL, including the fragment.
  public static func implicitTokens(
    _ url: String, for expected: Expectation, quirks: TokenResponseQuirks
  ) throws(CallbackError) -> TokenResponse {
    guard url.utf8.count <= longestURL else { throw .tooLarge }
    // By bytes: a combining mark after a "#" or "?" makes another Character of it.
    let halves = url.utf8.split(separator: UInt8(ascii: "#"), maxSplits: 1, omittingEmptySubsequences: false)
    guard let parameters = FormEncoding.decode(Substring(halves.count == 2 ? halves[1] : Substring().utf8)) else {
      throw .unreadable
    }
    // Some servers return an error in the query, even with a meaningless fragment (`#_=_`). A token in the query is
    // rejected: it may already be in a log.
    guard parameters.contains(where: { ["access_token", "error", "state"].contains($0.name) }) else {
      let plain = try parse(url)
      _ = try plain.code(for: expected)
      throw .noToken("it has a code, and a token was asked for")
    }
    var values: [String: String] = [:]
    for parameter in parameters where values.updateValue(parameter.value, forKey: parameter.name) != nil {
      throw .duplicateParameter(parameter.name.printable(limit: 64))
    }
    let response = try AuthorizationResponse(values)
    try response.check(for: expected)
    if let error = response.error { throw .denied(error) }
    do throws(WrongMember) {
      return try TokenResponse(fragment: values, quirks: quirks)
    } catch {
      throw .noToken("\(error.name) is not \(error.wanted)")
    }
  }
}
