import BrokerAPI
import Grants
import Logging
import OAuth

/// A search for the way of presenting a client's secret that a server accepts.
struct AuthenticationSearch {
  /// After a search without a result no other one begins for this time.
  static let pause = Duration.seconds(600)

  var task: Task<Bool, Never>?
  /// The end of the last search without a result, in time since boot.
  var failedAt: Duration?
}

// A server that refuses the client later than at its registration (`invalid_client`): it may have begun to take the
// secret in another way.
extension Registrations {
  /// After a failure: whether the server refused the client, and accepts it in another way, which is used from now on.
  func hasOtherAuthentication(after failure: ProviderFailure, at name: ProviderName) async -> Bool {
    guard failure.oauth?.code == .invalidClient else { return false }
    return await findAuthentication(of: name)
  }

  /// Tries the ways to present the client's secret, with a request that carries no code and no refresh token of a user,
  /// and stores the way that the server accepts.
  ///
  /// - Returns: whether another way is used from now on.
  private func findAuthentication(of name: ProviderName) async -> Bool {
    if let running = searches[name]?.task { return await running.value }
    if let failedAt = searches[name]?.failedAt, uptime - failedAt < AuthenticationSearch.pause { return false }
    guard let registration = saved[name], registration.clientSecret != nil, registration.options.base == nil,
      !configured.contains(name), let registrar
    else { return false }
    let task = Task { await search(for: registration, registrar) }
    searches[name] = AuthenticationSearch(task: task)
    let isFound = await task.value
    searches[name] = isFound ? nil : AuthenticationSearch(failedAt: uptime)
    return isFound
  }

  private func search(for registration: SavedRegistration, _ registrar: any Registrar) async -> Bool {
    let name = registration.provider
    guard case .success(let endpoints) = await providers.endpoints(of: name),
      case .success(let found?) = await endpoints.connection.converse(
        registrar.authentication(of: registration, metadata: endpoints.metadata), for: .exchanges),
      found != registration, saved[name] == registration, let provider = registrar.provider(found)
    else { return false }
    do throws(StoreError) {
      try await journal.commit([.putRegistration(found)])
    } catch {
      logger.warning("not saved: the client authentication that provider \(name) accepts: \(error)")
      return false
    }
    // It may have been removed while it was written.
    guard saved[name] == registration, !configured.contains(name), let connection = providers[name] else {
      return false
    }
    saved[name] = found
    connection.configure(provider)
    logger.notice(
      "provider \(name) refused the client by \(registration.authMethod) and accepts it by \(found.authMethod)",
      metadata: ["provider": "\(name)", "hint": "Nothing to do: it is used from now on."])
    return true
  }
}
