import Foundation
import NIOHTTP1

extension Desk {
  private static let formType = "application/x-www-form-urlencoded"

  /// A logout request comes from a provider, through a reverse proxy that may pass the public host's name on. So the
  /// `Host` is not compared with ours: the logout token is signed, and nothing else of the request is trusted.
  ///
  /// - Parameter path: the target's, which ``LogoutPath`` leads.
  func logoutRuling(on head: HTTPRequestHead, path: Substring) -> Ruling {
    guard head.headers["Host"].count == 1 else { return .refusal(.notOneHost) }
    guard !head.uri.utf8.contains(UInt8(ascii: "#")) else { return .refusal(.fragment) }
    guard let provider = LogoutPath.provider(in: path) else { return .refusal(.unknownProvider) }
    guard head.method == .POST else { return .refusal(.notPost) }
    // Browsers alone send it, for whatever page a person is on.
    guard head.headers["Sec-Fetch-Site"].allSatisfy({ $0.lowercased() == "none" }) else {
      return .refusal(.fromBrowser)
    }
    guard isForm(head.headers["Content-Type"]) else { return .refusal(.notForm) }
    let lengths = head.headers["Content-Length"].map { Int($0) ?? .max }
    guard lengths.allSatisfy({ $0 <= formLimit }) else { return .refusal(.tooLarge) }
    return .logout(provider: provider)
  }

  private func isForm(_ types: [String]) -> Bool {
    guard types.count == 1, let type = types[0].split(separator: ";").first else { return false }
    return type.trimmingCharacters(in: .whitespaces).lowercased() == Self.formType
  }
}
