public import OAuth

extension ProviderSettings {
  /// The addresses that browsers come back to which say themselves where they are; the broker's own endpoint is on
  /// whatever port it has.
  public var webAddresses: [RedirectURI] {
    let returns = postLogoutRedirectURI.flatMap(RedirectURI.init(rawValue:))
    guard case .fixed(let uri) = redirect else { return [returns].compactMap(\.self) }
    return [uri, returns].compactMap(\.self)
  }
}
