public import Grants
public import OAuth

/// A sign-in system that speaks no OAuth, as configured.
public enum SystemSettings: Sendable, Equatable {
  case vms(VMSSettings)
  case zephr(ZephrSettings)

  public var site: SiteSettings {
    switch self {
    case .vms(let settings): settings.site
    case .zephr(let settings): settings.site
    }
  }

  /// Each login tells the server where it ends.
  public var tellsRedirect: Bool {
    switch self {
    case .vms: false
    case .zephr(let settings): settings.redirectParameter != nil
    }
  }

  /// Each login ends at an address of its own, one segment below the configured one.
  public var redirectsWithNonce: Bool { provider.authorizationTraits.correlation == .redirectURI }

  public var provider: any Provider {
    switch self {
    case .vms(let settings): VMSProvider(settings)
    case .zephr(let settings): ZephrProvider(settings)
    }
  }
}

extension ProviderSettings.Redirect {
  /// The address, where it is one that says itself where it is.
  public var fixed: RedirectURI? { if case .fixed(let uri) = self { uri } else { nil } }
}
