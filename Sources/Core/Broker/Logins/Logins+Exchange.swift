import BrokerAPI
import Grants
import Logging
import OAuth

// The exchange of a callback's data. Each step returns the error that ended the login, or nil.
extension Logins {
  /// Continues with the callback's data. A code is marked as used on disk.
  func finish(
    _ answer: LoginAnswer, _ login: SavedLogin, _ target: ProviderEndpoints, sentAt: Duration
  ) async -> RPCError? {
    let provider = target.provider
    guard case .code(let code, let memory) = answer else {
      return await finish(answer, login, provider, sentAt: sentAt)
    }
    guard login.exchangesCode else {
      complete(login, .codeIssued(code, at: now))
      return nil
    }
    // A reload may have come while the code was spent on disk.
    if let error = moved(login) { return await fail(login.id, error) }
    var login = login
    login.memory.merge(memory) { $1 }
    let sentAt = uptime
    let step = provider.exchange(code: code, login: login, metadata: target.metadata)
    switch await target.connection.converse(step, for: .exchanges) {
    case .failure(let failure):
      var error = exchangeError(failure, at: target.connection)
      if await registrations.hasOtherAuthentication(after: failure, at: provider.name) {
        error.hint =
          "The provider accepts the client in another way, which is used now: start again with `grantctl login`."
      }
      return await fail(login.id, error)
    case .success(let answer): return await finish(answer, login, provider, sentAt: sentAt)
    }
  }

  /// The result of a login: its tokens, or a further step for the user.
  func finish(
    _ answer: LoginAnswer, _ login: SavedLogin, _ provider: any Provider, sentAt: Duration
  ) async -> RPCError? {
    switch answer {
    case .issued(let issued):
      let kind = provider.authorizationTraits.grantKind
      return await adoptOrFail(issued, login, provider, sentAt: sentAt, kind: kind)
    case .action(let action, let memory): return await hold(login, action, memory, provider)
    case .code:
      return await fail(
        login.id, RPCError(.providerError, "provider \(provider.name): one code was answered by another"))
    }
  }

  /// The end has come: says whose exchange has no answer yet.
  func reportUnread() {
    for login in table.all {
      guard case .exchanging = login.phase else { continue }
      let (account, provider) = (login.saved.account, login.saved.provider)
      logger.error(
        "stopped before the answer to the sign-in of \(account) was read",
        metadata: [
          "account": "\(account)", "provider": "\(provider)",
          "hint": "Sign in again with `grantctl login \(provider) \(account)`.",
        ])
    }
  }

  /// An answer with times, such as an ID token, cannot be checked by a wrong clock.
  private static func clockHint(_ skew: ClockSkew) -> String {
    let side = skew.offset > .zero ? "ahead of" : "behind"
    return
      "This machine's clock is \(max(skew.offset, .zero - skew.offset).wholeSeconds) s \(side) the provider's: set it "
      + "(`timedatectl`), then start again with `grantctl login`."
  }

  /// `invalid_grant` here is about the code, not about a grant.
  private func exchangeError(_ failure: ProviderFailure, at connection: ProviderConnection) -> RPCError {
    let provider = connection.provider
    var error = providers.error(failure, at: provider.name)
    switch failure {
    case .ended, .requestRefused:
      return RPCError(.providerError, error.message, hint: "Start again with `grantctl login`.", oauth: error.oauth)
    case .rejected: error.hint = "The code is spent: start again with `grantctl login`."
    case .rateLimited, .tryLater, .unclear, .lost, .notSent, .blocked:
      error.hint =
        connection.transportHint(for: failure, setting: provider.section).map {
          "\($0) Then start again with `grantctl login`."
        } ?? "The code cannot be sent twice: start again with `grantctl login` once the provider answers."
    case .invalid: if let skew = connection.observed.skew, skew.isWorthWarning { error.hint = Self.clockHint(skew) }
    case .misconfigured, .tokenRefused, .denied, .unsupported: break
    }
    return error
  }
}
