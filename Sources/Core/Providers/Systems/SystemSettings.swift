public import Grants
public import OAuth

/// A configured sign-in system without OAuth.
public enum SystemSettings: Sendable, Equatable {
  case vms(VMSSettings)
  case zephr(ZephrSettings)

  public var site: SiteSettings {
    switch self {
    case .vms(let settings): settings.site
    case .zephr(let settings): settings.site
    }
  }

  /// Each login sends its redirect URI to the server.
  public var tellsRedirect: Bool {
    switch self {
    case .vms: false
    case .zephr(let settings): settings.redirectParameter != nil
    }
  }

  /// Each login has a separate redirect URI, one path segment below the configured one.
  public var redirectsWithNonce: Bool { provider.authorizationTraits.correlation == .redirectURI }

  public var provider: any Provider {
    switch self {
    case .vms(let settings): VMSProvider(settings)
    case .zephr(let settings): ZephrProvider(settings)
    }
  }
}

extension ProviderSettings.Redirect {
  /// The redirect URI, if it is fixed.
  public var fixed: RedirectURI? { if case .fixed(let uri) = self { uri } else { nil } }
}
