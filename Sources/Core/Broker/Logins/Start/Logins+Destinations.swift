import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals

// The possible places of a login, and its end.
extension Logins {
  func destinations(
    _ kinds: [String], _ place: AuthorizationPlace, _ redirectURI: RedirectURI, _ link: LoginLink?
  ) -> [Destination] {
    let end = place.expiresIn.map { (now + $0).seconds }
    func destination(_ kind: String, app: String? = nil, _ url: String) -> Destination {
      Destination(kind: kind, app: app, url: url, redirect_uri: redirectURI.rawValue, expires_at: end)
    }
    let request = place.url.absoluteString
    // Exposed to the caller that started the login. The link works only in the browser of the login's user.
    let short = link.map { "\(redirectURI.origin ?? "")/go/\($0.token.exposed)" }
    return kinds.flatMap { kind in
      switch kind {
      case "native": place.natives.map { destination(kind, app: $0.app, $0.url.absoluteString) }
      case "browser": [destination(kind, short ?? request)]
      default: [destination(kind, request)]
      }
    }
  }

  /// A link with a pushed request must be opened while the provider keeps that (RFC 9126 §2.2). The sign-in itself may
  /// take longer, so the login does not end with its link.
  func linkWarning(_ place: AuthorizationPlace, _ traits: AuthorizationTraits) -> String? {
    guard let lifetime = place.expiresIn, lifetime * 2 < traits.lifetime else { return nil }
    return "short_link: the provider forgets the link after \(lifetime.wholeSeconds) s; open it before"
  }

  /// Nil: a reload changed the provider.
  func openAuthorization(
    _ request: LoginRequest, _ target: ProviderEndpoints, _ account: AccountName, caller: Principal,
    session: (any Session)?
  ) async throws(RPCError) -> AuthorizationPlace? {
    let step = target.provider.authorization(request, metadata: target.metadata)
    switch try await begin(step, target, for: caller.holder, session: session) {
    case nil: return nil
    case .success(let place): return place
    case .failure(.invalid(let message, nil)): throw .invalidParams(message)
    case .failure(let failure):
      throw loginError(failure, at: target.provider.name, of: account, scopes: request.scopes)
    }
  }

  /// Nil: a reload changed the provider.
  func devicePlace(
    _ request: LoginRequest, _ target: ProviderEndpoints, _ account: AccountName, caller: Principal,
    session: (any Session)?
  ) async throws(RPCError) -> DevicePlace? {
    let (provider, metadata) = (target.provider, target.metadata)
    do throws(RPCError) {
      try providers.demand(.deviceAuthorization, of: metadata, provider)
    } catch {
      throw withoutDevice(error, provider.name, account)
    }
    let step = provider.deviceAuthorization(request, metadata: metadata)
    switch try await begin(step, target, for: caller.holder, session: session) {
    case nil: return nil
    case .success(let place): return place
    case .failure(let failure): throw loginError(failure, at: provider.name, of: account, scopes: request.scopes)
    }
  }

  /// The provider has no login on another device: its other ways, before the one to configure it.
  private func withoutDevice(_ error: RPCError, _ provider: ProviderName, _ account: AccountName) -> RPCError {
    let login = HintedCommand.login(provider, account)
    let others = "Sign in with a browser: `\(login)`, or with one on another machine: `\(login) --manual`."
    let own = error.hint == error.reason?.defaultHint ? nil : error.hint
    var lacking = error
    lacking.hint = [others, own].compactMap(\.self).joined(separator: " ")
    return lacking
  }

  func destination(_ place: DevicePlace) -> Destination {
    Destination(
      kind: "device", url: place.device.verificationURIComplete ?? place.device.verificationURI,
      user_code: place.device.userCode, verification_uri: place.device.verificationURI,
      verification_uri_complete: place.device.verificationURIComplete,
      expires_at: (now + place.expiresIn).seconds, interval: place.device.interval.wholeSeconds)
  }

  static let destinationKinds = ["native", "browser", "manual", "device"]

  /// The kinds that were asked for, each once.
  func kinds(_ asked: [String]?) throws(RPCError) -> [String] {
    if let unknown = asked?.first(where: { !Self.destinationKinds.contains($0) }) {
      throw .invalidParams(
        "params.destinations: expected `native`, `browser`, `manual` or `device`, got \(unknown.prefix(32).debugDescription)"
      )
    }
    var kinds: [String] = []
    for kind in asked ?? ["native", "browser", "manual"] where !kinds.contains(kind) { kinds.append(kind) }
    return kinds
  }

  /// Those of them that end at the redirect URI.
  ///
  /// - Parameter byHand: the command of this login.
  func usable(
    _ kinds: [String], _ redirectURI: RedirectURI, isAlone: Bool, byHand: String
  ) throws(RPCError) -> [String] {
    let port = redirectURI.port ?? 80
    // Another program on this machine takes addresses of another scheme, and a proxy those of the web.
    let reachable =
      redirectURI.isLoopback
      ? port == addresses.port || addresses.fixedPorts.contains(port)
      : redirectURI.scheme != "http" && (redirectURI.scheme != "https" || addresses.isPublic(redirectURI))
    let possible = kinds.filter { $0 == "manual" || reachable && $0 != "device" }
    guard !possible.isEmpty || !isAlone else {
      throw .invalidParams(
        "params.destinations: a browser cannot call back to \(redirectURI)",
        hint: "Permit `manual`, as `\(byHand) --manual` does: open the URL, then paste the URL at which it ends.")
    }
    return possible
  }
}
