import NIOHTTP1

extension RequestClassifier {
  /// A logout request comes from a provider, through a reverse proxy that may keep the public host's name. So the
  /// `Host` is not compared: the logout token is signed, and no other part of the request is trusted.
  ///
  /// - Parameter path: the target's, which ``LogoutPath`` begins.
  func logoutRuling(on head: HTTPRequestHead, path: Substring) -> RequestClassification {
    guard head.headers["Host"].count == 1 else { return .refusal(.notOneHost) }
    guard !head.uri.utf8.contains(UInt8(ascii: "#")) else { return .refusal(.fragment) }
    guard let provider = LogoutPath.provider(in: path) else { return .refusal(.unknownProvider) }
    guard head.method == .POST else { return .refusal(.notPost) }
    // Only browsers send it, for any page that a user opens.
    guard head.headers["Sec-Fetch-Site"].allSatisfy({ $0.lowercased() == "none" }) else {
      return .refusal(.fromBrowser)
    }
    guard Self.isForm(head.headers) else { return .refusal(.notForm) }
    guard Self.length(head.headers) <= formLimit else { return .refusal(.tooLarge) }
    return .logout(provider: provider)
  }
}
