public import OAuth

extension ProviderSettings {
  /// Configured redirect URIs that contain their own host and port. The broker's callback endpoint is not included: its
  /// port varies.
  public var webAddresses: [RedirectURI] {
    let returns = logout.postLogoutRedirectURI.flatMap(RedirectURI.init(rawValue:))
    guard case .fixed(let uri) = client.redirect else { return [returns].compactMap(\.self) }
    return [uri, returns].compactMap(\.self)
  }
}
