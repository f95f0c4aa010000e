import Grants
import OAuth
import Providers

/// Whether browsers get back to the broker, as the whole of the configuration has it.
struct RedirectCheck {
  let settings: Settings
  /// From the providers' sections.
  let places: [String: FileLocation]
  let publicURL: FileLocation?
  let file: String

  func check(report: inout ConfigurationReport) {
    if let origin = settings.callback.publicOrigin { checkPublic(origin, report: &report) }
    checkSystems(report: &report)
    checkLinks(report: &report)
    guard !settings.callback.enabled else { return }
    for provider in settings.providers {
      let place = location(of: provider.name)
      if provider.logout.backchannel {
        report.warning(
          "[provider.\(provider.name)] has backchannel_logout, and [callback] is off: no logout reaches the broker",
          at: place)
      }
      if case .fixed(let uri) = provider.client.redirect, !uri.isLoopback { continue }
      if provider.client.id.isEmpty { continue }
      report.warning(
        "[provider.\(provider.name)] has its redirect_uri on this machine, and [callback] is off: logins end by "
          + "login.handle_callback alone", at: place)
    }
  }

  /// `/go/…` is where browsers begin a login.
  private func checkLinks(report: inout ConfigurationReport) {
    let redirects =
      settings.providers.map { ($0.name, $0.client.redirect, false) }
      + settings.systems.map { ($0.site.name, $0.site.redirect, $0.redirectsWithNonce) }
    for (name, redirect, isFolder) in redirects {
      let path: String
      switch redirect {
      case .fixed(let uri):
        guard uri.isLoopback else { continue }
        path = uri.path
      case .loopback(_, let own): path = own
      }
      guard path.hasPrefix("/go/") || isFolder && path == "/go" else { continue }
      report.problem(
        "the redirect URI of [provider.\(name)] is below /go/, the path of the broker's own sign-in links",
        at: location(of: name), suggestion: "use another path, such as /callback")
    }
  }

  private func location(of name: ProviderName) -> FileLocation { places[name.rawValue] ?? FileLocation(file: file) }

  /// A proxy needs to know the port, and has nothing to pass on where no provider has its redirect URI there.
  private func checkPublic(_ origin: String, report: inout ConfigurationReport) {
    let place = publicURL ?? FileLocation(file: file)
    guard settings.callback.enabled else {
      return report.warning(
        "[callback] has public_url, and is off: nothing is there to pass callbacks on to", at: place)
    }
    if settings.callback.port == 0 {
      report.warning("[callback] has public_url and no port: the proxy cannot know which one to pass on to", at: place)
    }
    if !settings.webAddresses.contains(where: { $0.origin == origin }) {
      report.warning("[callback] has public_url, and no provider has its redirect_uri at \(origin)", at: place)
    }
    for system in settings.systems where !system.redirectsWithNonce && system.site.redirect.fixed?.origin == origin {
      report.warning(
        "[provider.\(system.site.name)] has its redirect_uri at public_url, and nothing in its answers names a login: "
          + "every client of the proxy can end another's", at: location(of: system.site.name))
    }
  }

  /// If only the server knows the browser's destination, the port cannot change.
  private func checkSystems(report: inout ConfigurationReport) {
    for system in settings.systems {
      let title = "[provider.\(system.site.name)]"
      switch system.site.redirect {
      case .fixed(let uri) where !uri.isLoopback: continue
      case .loopback where !system.tellsRedirect && settings.callback.enabled && settings.callback.port == 0:
        report.warning(
          "\(title) has a redirect_uri without a port, which the server cannot know: write the port there, or in "
            + "[callback]", at: location(of: system.site.name))
      case .fixed, .loopback:
        guard !settings.callback.enabled else { continue }
        report.warning(
          "\(title) has its redirect_uri on this machine, and [callback] is off: logins end by login.handle_callback "
            + "alone", at: location(of: system.site.name))
      }
    }
  }
}
