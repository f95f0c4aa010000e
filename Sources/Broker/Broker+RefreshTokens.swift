import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth

// Refresh tokens end too: people are told before, where the end is known or was learned.
extension Broker {
  /// When the account's refresh token is next worth a word; nil: never, or it has just been said.
  func announceIfDue(_ account: AccountName, _ grant: Grant) -> Timestamp? {
    let learned = providers[grant.saved.provider]?.learned.lifetime
    guard let moment = grant.nextAnnouncement(learned: learned, policy: configuration.refresh, at: now),
      let end = grant.refreshTokenEnd(learned: learned)
    else { return nil }
    guard moment <= now else { return moment }
    grants[account]?.announced(at: now)
    announce(grant.saved, end)
    Task { await saveStanding(of: account, "that an end was announced") }
    return nil
  }

  private func announce(_ saved: SavedGrant, _ end: RefreshTokenEnd) {
    let left = Self.inWords(end.at - now)
    let message =
      end.isLearned
      ? "the refresh token of \(saved.account) may end in \(left), as others of \(saved.provider) did at that age"
      : "the refresh token of \(saved.account) ends in \(left)"
    let hint = loginHint(saved)
    logger.warning(
      "\(message)",
      metadata: ["account": "\(saved.account)", "provider": "\(saved.provider)", "hint": "\(hint)"])
    emit(
      Event(
        type: .refreshTokenExpiring, at: now.seconds, account: saved.account.rawValue,
        provider: saved.provider.rawValue, message: message, hint: hint, refresh_expires_at: end.at.seconds))
  }

  static func inWords(_ time: Duration) -> String {
    let seconds = max(0, time.wholeSeconds)
    func some(_ count: Int64, _ unit: String) -> String { "\(count) \(unit)\(count == 1 ? "" : "s")" }
    if seconds >= 2 * 86_400 { return some(seconds / 86_400, "day") }
    if seconds >= 2 * 3600 { return some(seconds / 3600, "hour") }
    return seconds >= 120 ? some(seconds / 60, "minute") : some(seconds, "second")
  }

  // MARK: Learning how old they get

  func learnedLifetime(of name: ProviderName) -> LearnedLifetime {
    values[Self.lifetimeKey(name)].flatMap { try? JSONDecoder().decode(LearnedLifetime.self, from: Data($0.utf8)) }
      ?? LearnedLifetime()
  }

  private static func lifetimeKey(_ name: ProviderName) -> String { "refresh_token_lifetime.\(name)" }

  /// The provider refused a refresh token, and nothing else explains it.
  func refreshTokenEnded(_ saved: SavedGrant) async {
    let age = now - (saved.refreshTokenIssuedAt ?? saved.loggedInAt)
    providers[saved.provider]?.learned.ended(atAge: age, at: now)
    await saveLearned(saved.provider)
  }

  /// The provider took a refresh token of this age.
  func refreshTokenLived(_ before: SavedGrant) async {
    let age = now - (before.refreshTokenIssuedAt ?? before.loggedInAt)
    guard providers[before.provider]?.learned.lived(toAge: age) == true else { return }
    await saveLearned(before.provider)
  }

  private func saveLearned(_ name: ProviderName) async {
    guard let learned = providers[name]?.learned, let data = try? JSONEncoder().encode(learned) else { return }
    let text = String(decoding: data, as: UTF8.self)
    values[Self.lifetimeKey(name)] = text
    await commitOrWarn([.putValue(Self.lifetimeKey(name), text)], "how old refresh tokens of \(name) get")
  }
}
