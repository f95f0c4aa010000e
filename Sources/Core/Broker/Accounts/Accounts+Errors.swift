import BrokerAPI
import Grants
import OAuth

// The reasons why an account has no token, each with the user's next step.
extension Accounts {
  func loginRequired(_ grant: Grant, _ reason: LoginReason, _ failure: FailureRecord?) -> RPCError {
    let why =
      switch reason {
      case .refused: "the provider ended the grant"
      case .lostRotation: "the answer to a refresh was lost, and the provider no longer takes the old refresh token"
      case .noRefreshToken:
        providers[grant.saved.provider]?.provider.refreshTraits.isSupported == false
          ? "its session at the provider has ended"
          : "the access token expired and the provider issued no refresh token"
      case .refreshTokenExpired: "the refresh token has expired"
      case .identityChanged: "the provider answered for another user"
      case .signedOut: "the user signed out at the provider"
      case .unreadable: failure?.message ?? "what is saved of it is damaged or sealed under another key"
      }
    return RPCError(
      .loginRequired, "account \(grant.saved.account) needs a login: \(why)\(olderCopy(grant, reason, failure))",
      hint: loginHint(grant.saved),
      oauth: failure?.oauth.map { OAuthDetail($0) }, detail: reason.rawValue)
  }

  /// The refresh token that the provider refused came from an older copy of the database.
  private func olderCopy(_ grant: Grant, _ reason: LoginReason, _ failure: FailureRecord?) -> String {
    guard reason == .refused || reason == .lostRotation, let older = journal.older, let failure,
      failure.at >= older.found, grant.saved.refreshTokenSince < older.found + .seconds(1),
      grant.token.map({ $0.issuedAt < older.found + .seconds(1) }) ?? true
    else { return "" }
    return "; its refresh token is from an older copy of the database, which lacked \(older.lost.count) commits up to "
      + older.lost.last.text
  }

  func loginHint(_ saved: SavedGrant) -> String {
    if saved.provider == SavedGrant.unreadableProvider {
      let names = providers.sorted.map { $0.provider.name.rawValue }.prefix(8).joined(separator: ", ")
      return "Sign in again with `grantctl login PROVIDER \(saved.account)`; its provider is one of: \(names)."
    }
    return "Sign in again with `grantctl login \(saved.provider) \(saved.account)`."
  }

  func misconfigured(_ grant: Grant, _ failure: FailureRecord) -> RPCError {
    guard let connection = providers[grant.saved.provider] else {
      if journal.isSetAside(grant.saved.provider) {
        return RPCError(
          .providerMisconfigured, "the registration of provider \(grant.saved.provider) is on disk and cannot be read",
          hint: "Register it again with `grantctl provider register`; `grantctl repair` lists what cannot be read.")
      }
      return RPCError(
        .providerMisconfigured, "provider \(grant.saved.provider) is not in the configuration",
        hint: "Add \(grant.saved.provider.section) again, or `grantctl logout \(grant.saved.account)`.")
    }
    let name = grant.saved.account
    if grant.saved.kind.isUnattended, !connection.hasWrongMetadata, failure.oauth?.code != .invalidClient {
      return RPCError(
        .providerMisconfigured,
        "provider \(grant.saved.provider) gives account \(name) no token: \(failure.message)",
        hint: "Correct [account.\(name)] or its registration at the provider, then run `grantctl reload`.",
        oauth: failure.oauth.map { OAuthDetail($0) })
    }
    let provider = grant.saved.provider
    guard let oauth = failure.oauth, connection.suspended == nil else {
      let fault = failure.oauth == nil ? "cannot be used" : "refuses this client"
      return RPCError(
        .providerMisconfigured, "provider \(provider) \(fault): \(failure.message)",
        hint: connection.provider.correction,
        oauth: failure.oauth.map { OAuthDetail($0) })
    }
    return refused(grant, failure, oauth, connection)
  }

  /// The provider refused the account's refresh with a code that usually concerns the client.
  private func refused(
    _ grant: Grant, _ failure: FailureRecord, _ oauth: OAuthError, _ connection: ProviderConnection
  ) -> RPCError {
    let (name, provider) = (grant.saved.account, grant.saved.provider)
    let code = oauth.code.rawValue.printable(limit: 64)
    if grant.isRefusedAlone {
      return RPCError(
        .loginRequired, "the provider refuses this account's grant with \(code); sign in again",
        hint: loginHint(grant.saved),
        oauth: OAuthDetail(oauth), detail: LoginReason.refused.rawValue)
    }
    let hint =
      connection.history.clientRefusals.rest(at: now) == nil
      ? "It is tried again in a few minutes. If other accounts of provider \(provider) work, sign in again with "
        + "`grantctl login \(provider) \(name)`. If they fail too: \(connection.provider.correction)"
      : "Several accounts are refused. \(connection.provider.correction)"
    return RPCError(
      .providerMisconfigured, "provider \(provider) refuses the refresh of account \(name): \(failure.message)",
      hint: hint,
      oauth: OAuthDetail(oauth))
  }

  func unavailable(_ grant: Grant, _ failure: FailureRecord, retryAt: Timestamp) -> RPCError {
    if case .overdue(let attempt, _) = grant.phase { return awaited(grant, failure, attempt) }
    let wait = max(1, (retryAt - now).wholeSeconds)
    let isPlanned = grant.nextMoment(policy: refreshPolicy, at: now).map { $0 <= retryAt } ?? true
    let next =
      isPlanned ? "the broker tries again by itself in \(wait) s." : "the next request after \(wait) s tries again."
    let message = "no fresh token for account \(grant.saved.account): \(failure.message)"
    if let error = providers[grant.saved.provider]?.absentMetadata(message, retryAfter: Double(wait)) { return error }
    let login = "`grantctl login \(grant.saved.provider) \(grant.saved.account)`"
    let hint =
      grant.awaitsSecondTry && !grant.isSecondTrySoon
      ? "The access token works until its end; the refresh token is tried once more in \(wait) s. To sign in again now: "
        + "\(login)."
      : seemsEnded(grant)
        ? "The provider probably ended this grant: \(login). Until then "
          + next
        : "Nothing to do: \(next)"
    return RPCError(
      .temporarilyUnavailable, message, hint: hint, retryAfter: Double(wait),
      oauth: failure.oauth.map { OAuthDetail($0) })
  }

  /// The provider still refuses the refresh without a reason, long after the access token's end.
  private func seemsEnded(_ grant: Grant) -> Bool {
    guard !grant.saved.kind.isUnattended, case .failing(_, let count, _) = grant.saved.standing, count >= 3,
      !grant.waitsForProvider,
      let end = grant.token?.expiresAt
    else { return false }
    return now - end >= Limit.patience
  }

  /// A refresh had no answer in time, and its answer may still come.
  private func awaited(_ grant: Grant, _ failure: FailureRecord, _ attempt: Grant.Attempt) -> RPCError {
    let left = max(1, (attempt.sentAt + Limit.lateAnswer - now).wholeSeconds)
    let ago = max(0, (now - attempt.sentAt).wholeSeconds)
    let name = grant.saved.provider
    return RPCError(
      .temporarilyUnavailable, "no fresh token for account \(grant.saved.account): \(failure.message)",
      hint:
        "Nothing to do: the answer to the refresh of \(ago) s ago is awaited for \(left) s more. It may hold the only "
        + "refresh token, and another request could end the grant. If provider \(name) takes a refresh token again after "
        + "a lost answer, `rotation` in \(providers.section(of: name)) can allow it: then nothing is awaited. "
        + "`grantctl refresh \(grant.saved.account) --now` asks at once, at that risk.",
      retryAfter: Double(min(left, 30)), oauth: failure.oauth.map { OAuthDetail($0) })
  }
}
