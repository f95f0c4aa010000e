import Grants
import OAuth

// An answer in the fragment of an address (RFC 6749 §4.2.2): a page of the callback endpoint has to bring it.
extension Logins {
  /// From the callback endpoint.
  func awaitsFragment(url: String) async -> Bool {
    guard !isDraining else { return false }
    let address = ReturnedAddress(url)
    return table.all.contains { login in
      guard login.isPending, providers[login.saved.provider]?.provider.authorizationTraits.responseType == .token,
        let redirect = try? RedirectURI(login.saved.redirectURI)
      else { return false }
      // What an address has beyond the registered one is an answer, such as a refusal in the query.
      return address.isAt(redirect) && Self.query(of: url).elementsEqual(Self.query(of: redirect.rawValue))
    }
  }

  private static func query(of url: String) -> Substring.UTF8View {
    url[...].utf8.drop { $0 != UInt8(ascii: "?") }
  }
}
