import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth

/// A person was sent to end a session at the provider, and may come back (OpenID Connect RP-Initiated Logout §3).
struct SessionEnding: Sendable {
  var request: EndSessionRequest
  var provider: ProviderName
  /// Since the machine started.
  var until: Duration
}

/// Sessions whose end was sent to a user's browser. Only in memory: the account is already removed, and a return only
/// confirms it.
@BrokerActor
final class SessionEndings: Piece {
  let runtime: Runtime
  private let providers: ProviderDirectory
  private let addresses: CallbackAddresses
  /// The latest last.
  private var endings: [SessionEnding] = []

  init(_ runtime: Runtime, providers: ProviderDirectory, addresses: CallbackAddresses) {
    self.runtime = runtime
    self.providers = providers
    self.addresses = addresses
  }

  var count: Int { endings.count }

  /// The URL at which a browser ends the user's session at the provider (OpenID Connect RP-Initiated Logout §2).
  ///
  /// The URL has the ID token, which names the user: it leads to the server of the sign-in, or is not created.
  func begin(of saved: SavedGrant) async throws(Objection) -> String {
    let lack = Objection("the provider has no end_session_endpoint")
    guard case .success(let target) = await providers.endpoints(of: saved.provider) else { throw lack }
    guard providers.isOwn(saved.loggedInAt, of: saved.provider) else {
      throw Objection("the provider is configured at another server, or for another client, since the login")
    }
    let provider = target.provider
    let state = Secret(system.token(bytes: 16))
    let address = provider.logoutTraits.returnAddress(port: addresses.port)
    guard let url = provider.endSession(of: saved, returnTo: address, state: state, metadata: target.metadata) else {
      throw lack
    }
    if let address { expect(address, state, from: saved.provider) }
    return url.absoluteString
  }

  /// The provider from whose end of a session the browser comes. Also a second time, such as by a reload of the page:
  /// nothing comes of it.
  func returned(_ url: String) -> ProviderName? {
    endings.removeAll { $0.until <= uptime }
    guard let ending = endings.first(where: { $0.request.isReturn(url) }) else { return nil }
    logger.info("a user signed out at provider \(ending.provider)", metadata: ["provider": "\(ending.provider)"])
    return ending.provider
  }

  /// Whether a provider sends people there after they signed out.
  func isReturnAddress(_ url: String) -> Bool {
    providers.all.contains { $0.provider.logoutTraits.returnAddress(port: addresses.port)?.matches(url) == true }
  }

  var strayReturn: RPCError {
    RPCError(
      .invalidCallback, "this is not the return of a logout that was begun here (wrong state)",
      hint: "Look at the provider whether you are signed out there.")
  }

  private func expect(_ address: RedirectURI, _ state: Secret, from provider: ProviderName) {
    let request = EndSessionRequest(
      idTokenHint: nil, clientID: nil, postLogoutRedirectURI: address.rawValue, state: state)
    if endings.count >= Limit.endings { endings.removeFirst() }
    endings.append(SessionEnding(request: request, provider: provider, until: uptime + Limit.endingsKept))
  }
}
