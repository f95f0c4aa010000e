import BrokerAPI
import Grants
import OAuth

/// The URL of the callback endpoint, and the redirect URIs derived from it.
@BrokerActor
final class CallbackAddresses {
  private let clock: BrokerClock
  /// For people.
  private(set) var addresses: [String] = []
  /// The endpoint's own port; nil: it does not listen.
  private(set) var port: Int?
  /// The ports that could not be had.
  private(set) var failures: [BrokerStatus.ListenerView] = []
  /// The other ports that it listens on, since providers fix them.
  private(set) var fixedPorts: Set<Int> = []
  /// The origin under which a proxy passes callbacks on; nil: none does.
  private(set) var publicOrigin: String?

  init(_ clock: BrokerClock, publicOrigin: String?) {
    self.clock = clock
    self.publicOrigin = publicOrigin
  }

  func configure(publicOrigin: String?) { self.publicOrigin = publicOrigin }

  /// The endpoint listens on its own port, if that is free, and on the ports that providers fix.
  func listens(
    port: Int?, others: Set<Int>, addresses: [String], failures: [BrokerStatus.ListenerView] = []
  ) {
    self.port = port
    self.failures = failures
    fixedPorts = others
    self.addresses = addresses
  }

  func redirectURI(_ traits: AuthorizationTraits) throws(RPCError) -> RedirectURI {
    let registered = try registeredRedirectURI(traits)
    return traits.correlation == .redirectURI ? registered.appending(clock.system.token(bytes: 16)) : registered
  }

  func registeredRedirectURI(_ traits: AuthorizationTraits) throws(RPCError) -> RedirectURI {
    switch traits.redirect {
    case .fixed(let uri): return uri
    case .loopback(let host, let path):
      guard let port else {
        throw RPCError(
          .providerMisconfigured, "the callback endpoint does not listen, so the provider could not call back",
          hint: "See the log: its port may be taken, or [callback] has enabled = false. Or set redirect_uri in the "
            + "provider's section.")
      }
      do throws(RedirectURIError) {
        return try RedirectURI("http://\(host):\(port)\(path)")
      } catch {
        throw RPCError(.providerMisconfigured, error.description)
      }
    }
  }

  func redirectAddress(_ traits: AuthorizationTraits) -> String {
    switch traits.redirect {
    case .fixed(let uri): uri.rawValue
    case .loopback(let host, let path): "http://\(host)\(port.map { ":\($0)" } ?? "")\(path)"
    }
  }

  /// Why the browser will not reach the callback endpoint at this redirect URI; nil: it will, or the URI is not this
  /// machine's.
  func warning(_ redirectURI: RedirectURI) -> String? {
    guard redirectURI.isLoopback, !isPublic(redirectURI) else { return nil }
    let wanted = redirectURI.port ?? 80
    guard wanted != port, !fixedPorts.contains(wanted) else { return nil }
    return "callback_port_taken: the broker does not listen on port \(wanted) of the redirect URI; stop the process "
      + "that does (`ss -ltnp 'sport = :\(wanted)'`), or paste the URL at which the browser ends: `grantctl login --manual`"
  }

  /// Whether a proxy passes it on to the callback endpoint.
  func isPublic(_ redirectURI: RedirectURI) -> Bool {
    guard let origin = publicOrigin else { return false }
    // Without a listener there is no target for a proxy.
    return port != nil && redirectURI.origin == origin
  }
}
