extension DemoServer {
  /// One of the systems whose endpoints are served beside the standard ones, with the settings that are its own.
  public enum Preset: String, Sendable, CaseIterable {
    case vms
    case sevenPass = "7pass"
    case dropbox
    case uber
    case zephr
  }
}

extension DemoServer.Settings {
  /// Sets the special values of a system: lifetimes, and for 7Pass the differences of its OpenID Connect.
  public mutating func use(_ preset: DemoServer.Preset) {
    switch preset {
    case .vms, .zephr: return
    case .dropbox: accessTTL = .seconds(14_400)
    case .uber: accessTTL = .seconds(30 * 86_400)
    case .sevenPass:
      metadata.oidc = .sevenPass
      metadata.oauth = .missing
      sevenPass.service = "7pass-service"
      sevenPass.offlineNeedsConsent = true
      accessTTL = .seconds(7200)
      rotation = .none
      refreshTTL = .seconds(90 * 86_400)
      refresh.prolongs = true
    }
  }
}
