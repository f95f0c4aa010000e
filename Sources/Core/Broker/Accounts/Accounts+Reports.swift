import BrokerAPI
import Grants
import Logging
import OAuth

// Reports about an account for users: events and log lines.
extension Accounts {
  /// A grant has ended: the log, an event and the metrics say why, and by which rule of the provider a lost answer costs
  /// a grant.
  func reportEnd(of grant: Grant) {
    guard case .loginRequired(let reason, let failure) = grant.saved.standing else { return }
    let saved = grant.saved
    let error = loginRequired(grant, reason, failure)
    let rule = rotation(of: saved)
    measures.grantEnded(saved.provider, reason)
    var metadata: Logger.Metadata = [
      "account": "\(saved.account)", "provider": "\(saved.provider)", "reason": "\(ErrorReason.loginRequired.rawValue)",
      "detail": "\(reason.rawValue)", "hint": "\(error.hint ?? "")",
    ]
    metadata["rotation"] = rule.map { "\($0)" }
    metadata["oauth"] = failure.oauth.map { "\($0.code)" }
    logger.log(level: reason.isLoss ? .error : .warning, "\(error.message)", metadata: metadata)
    emit(
      Event(
        type: .loginRequired, at: now.seconds, account: saved.account.rawValue, provider: saved.provider.rawValue,
        generation: saved.generation, reason: .loginRequired, message: error.message, hint: error.hint,
        detail: reason.rawValue, rotation: rule))
  }

  /// Tokens, or the note of a refresh, cannot be read: the account works, and asks for a new token.
  func reportLeftOut(_ account: AccountName, _ details: [String]) {
    for detail in details {
      logger.warning(
        "\(detail): it is left out",
        metadata: ["account": "\(account)", "hint": "Nothing to do: a refresh replaces it."])
    }
  }

  /// The provider's treatment of used refresh tokens; nil: none are used, or the provider is no longer configured.
  func rotation(of saved: SavedGrant) -> String? {
    guard let traits = providers[saved.provider]?.provider.refreshTraits, traits.isSupported else { return nil }
    return traits.rotation.rule
  }

  /// Logs what happened to an account, and tells it as an event.
  func report(_ saved: SavedGrant, _ error: RPCError, _ type: EventType) {
    let metadata: Logger.Metadata = [
      "account": "\(saved.account)", "provider": "\(saved.provider)", "reason": "\(error.reason?.rawValue ?? "")",
      "hint": "\(error.hint ?? "")",
    ]
    logger.warning("\(error.message)", metadata: metadata)
    emit(
      Event(
        type: type, at: now.seconds, account: saved.account.rawValue, provider: saved.provider.rawValue,
        generation: saved.generation, reason: error.reason, message: error.message, hint: error.hint))
  }
}
