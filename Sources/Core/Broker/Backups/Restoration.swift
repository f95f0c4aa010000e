import BrokerAPI
import Grants
import OAuth

/// What becomes of each account of a backup, decided as of one moment.
struct Restoration {
  struct Account: Sendable {
    var saved: SavedGrant
    var tokens: [SavedToken]
    var intent: RefreshIntent?
  }

  private(set) var grants: [Account] = []
  private(set) var registrations: [SavedRegistration] = []
  private(set) var result = StoreRestoreApply.Result()

  /// Lets go of a piece of it; false: nothing large is left.
  mutating func shorten() -> Bool { grants.shorten() }

  /// - Parameters:
  ///   - present: the accounts of the same names that are here; `count`: how many are here in all.
  ///   - configured: providers of the configuration; they win over those that were registered.
  ///   - older: replaces accounts even if their refresh token here is newer.
  ///   - declared: accounts of the configuration; it makes them, and nothing of them is in a backup.
  init(
    of state: StoredState, into present: [AccountName: SavedGrant], of count: Int,
    registrations known: [ProviderName: SavedRegistration], configured: Set<ProviderName>,
    declared: Set<AccountName>, replacing: Bool, older: Bool = false
  ) throws(RPCError) {
    let tokens = Dictionary(grouping: state.tokens, by: \.account)
    let intents = Dictionary(state.intents.map { ($0.account, $0) }, uniquingKeysWith: { first, _ in first })
    registrations = state.registrations.filter { known[$0.provider] == nil && !configured.contains($0.provider) }
    // Tokens issued to one client are useless to another.
    let others = Set(
      state.registrations.filter { registration in
        configured.contains(registration.provider)
          || known[registration.provider].map { $0.clientID != registration.clientID } ?? false
      }.map(\.provider))
    var seen: Set<AccountName> = []
    for saved in state.grants.sorted(by: { $0.account < $1.account }) where seen.insert(saved.account).inserted {
      let account = saved.account
      let numbers = [saved.generation] + (tokens[account] ?? []).map(\.generation)
      if !numbers.allSatisfy(Self.generations.contains) {
        result.left_out.append(.init(account: account.rawValue, why: "the numbers of its tokens are out of range"))
      } else if saved.kind.isUnattended || declared.contains(account) {
        result.left_out.append(.init(account: account.rawValue, why: "the configuration declares such accounts"))
      } else if others.contains(saved.provider) {
        result.left_out.append(
          .init(account: account.rawValue, why: "provider \(saved.provider) is another client here"))
      } else if present[account] != nil, !replacing {
        result.kept.append(account.rawValue)
      } else if !older, let here = present[account], Self.isOlder(saved, than: here) {
        result.left_out.append(
          .init(account: account.rawValue, why: "its refresh token here is newer; --older replaces it all the same"))
      } else {
        let old = present[account]
        if old == nil { result.restored.append(account.rawValue) } else { result.replaced.append(account.rawValue) }
        grants.append(
          Self.renumbered(
            Account(saved: saved, tokens: tokens[account] ?? [], intent: intents[account]), after: old?.generation))
      }
    }
    guard count + result.restored.count <= Limit.accounts else {
      throw RPCError(.overloaded, "these would be more than \(Limit.accounts) accounts")
    }
  }

  /// Whether the refresh token of the backup was replaced by the one here. A provider that rotates refresh tokens ends the
  /// grant if the old one comes back.
  static func isOlder(_ saved: SavedGrant, than here: SavedGrant) -> Bool {
    if case .loginRequired = here.standing { return false }
    guard let token = here.refreshToken, token != saved.refreshToken else { return false }
    return saved.refreshTokenSince < here.refreshTokenSince
  }

  /// More than any account comes to, and far from where counting on would overflow.
  private static let generations: Range<Int64> = 0..<(1 << 62)

  /// Generations never decrease, even for another grant.
  private static func renumbered(_ account: Account, after generation: Int64?) -> Account {
    guard let generation else { return account }
    let least = account.tokens.map(\.generation).min() ?? account.saved.generation
    let step = max(0, generation + 1 - min(least, account.saved.generation))
    var account = account
    account.saved.generation += step
    for index in account.tokens.indices { account.tokens[index].generation += step }
    return account
  }

  var changes: [Change] {
    var changes = registrations.map(Change.putRegistration)
    for account in grants {
      let name = account.saved.account
      changes += [.putGrant(account.saved), .removeTokens(name)] + account.tokens.map(Change.putToken)
      changes.append(account.intent.map(Change.putIntent) ?? .removeIntent(name))
    }
    return changes
  }
}
