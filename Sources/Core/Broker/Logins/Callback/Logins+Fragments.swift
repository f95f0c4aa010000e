import Grants
import OAuth

// An answer in the fragment of an address (RFC 6749 §4.2.2): a page of the callback endpoint has to bring it.
extension Logins {
  /// From the callback endpoint.
  func awaitsFragment(url: String) async -> Bool {
    guard !isDraining else { return false }
    let address = ReturnedAddress(url)
    func isOf(_ login: SavedLogin) -> Bool {
      guard let redirect = try? RedirectURI(login.redirectURI) else { return false }
      // Parameters beyond those of the registered URL are an answer, such as a refusal in the query.
      return address.isAt(redirect) && Self.query(of: url).elementsEqual(Self.query(of: redirect.rawValue))
    }
    let names = providers.all.map(\.provider).filter { $0.authorizationTraits.responseType == .token }.map(\.name)
    if table.all.contains(where: { $0.isPending && names.contains($0.saved.provider) && isOf($0.saved) }) {
      return true
    }
    guard journal.isShared else { return false }
    // Its state is in the fragment, which is not here yet.
    for name in names {
      let others = (try? await journal.store.logins(.provider(name))) ?? []
      if others.contains(where: isOf) { return true }
    }
    return false
  }

  private static func query(of url: String) -> Substring.UTF8View {
    url[...].utf8.drop { $0 != UInt8(ascii: "?") }
  }
}
