import Broker
import Foundation
import Grants
import Synchronization

/// A store in memory that fails or hangs on command, and that outlives brokers as a disk does.
final class MemoryStore: Store {
  enum Mode: Sendable, Equatable {
    case works
    case fails
    /// Commits wait until the mode changes.
    case hangs
  }

  static let failure = StoreError.unwritable(path: "memory", detail: "disk full")

  private struct State {
    var mode = Mode.works
    /// Only commits for which this holds are concerned by the mode.
    var concerns: @Sendable ([Change]) -> Bool = { _ in true }
    var hanging: [CheckedContinuation<Void, Never>] = []
    var grants: [AccountName: SavedGrant] = [:]
    var tokens: [AccountName: SavedToken] = [:]
    var registrations: [ProviderName: SavedRegistration] = [:]
    var narrowed: [AccountName: [SavedToken.Key: SavedToken]] = [:]
    var intents: [AccountName: RefreshIntent] = [:]
    var logins: [LoginID: SavedLogin] = [:]
    var revocations: [String: PendingRevocation] = [:]
    var values: [String: String] = [:]
    var log: [[Change]] = []
    var found: StoreError?
    var rebuilt: [StoredState] = []
    var damaged: Set<AccountName> = []

    /// What was written to the files is not looked at while a commit writes to them as well.
    var visible: StoreError? {
      if case .corrupt = found, !hanging.isEmpty { nil } else { found }
    }
  }

  private let state = Mutex(State())

  var location: String { "memory" }
  var log: [[Change]] { state.withLock { $0.log } }
  var hanging: Int { state.withLock { $0.hanging.count } }
  var revocations: [PendingRevocation] { state.withLock { Array($0.revocations.values) } }
  var registrations: [SavedRegistration] { state.withLock { Array($0.registrations.values) } }
  var logins: [SavedLogin] { state.withLock { Array($0.logins.values) } }

  func grant(_ name: String) -> SavedGrant? { state.withLock { $0.grants[account(name)] } }
  func token(_ name: String) -> SavedToken? { state.withLock { $0.tokens[account(name)] } }
  func narrowed(_ name: String) -> [SavedToken.Key: SavedToken] {
    state.withLock { $0.narrowed[account(name)] ?? [:] }
  }
  func value(_ name: String) -> String? { state.withLock { $0.values[name] } }
  func intent(_ name: String) -> RefreshIntent? { state.withLock { $0.intents[account(name)] } }

  func set(_ mode: Mode, concerning concerns: @escaping @Sendable ([Change]) -> Bool = { _ in true }) {
    let woken = state.withLock { state in
      state.mode = mode
      state.concerns = concerns
      defer { state.hanging = [] }
      return state.hanging
    }
    for continuation in woken { continuation.resume() }
  }

  /// The account's secrets cannot be opened any more.
  func damages(_ name: String) { state.withLock { _ = $0.damaged.insert(account(name)) } }

  func accounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount] {
    let damaged = state.withLock { $0.damaged }
    return try await load().accounts.filter { one in account.map { one.grant.account > $0 } ?? true }.prefix(most)
      .map { stored -> any PackedAccount in
        damaged.contains(stored.grant.account) ? DamagedAccount(stored: stored) : UnpackedAccount(stored)
      }
  }

  private struct DamagedAccount: PackedAccount {
    let stored: StoredAccount
    var account: AccountName { stored.grant.account }

    func read(_ depth: AccountDepth) throws(StoreError) -> StoredAccount {
      if depth == .whole { throw .unreadableAccount(account, detail: "a row of table grants was changed") }
      return stored
    }
  }

  func load() async throws(StoreError) -> StoredState {
    state.withLock { state in
      var stored = StoredState()
      stored.grants = Array(state.grants.values)
      stored.registrations = Array(state.registrations.values)
      stored.tokens = Array(state.tokens.values) + state.narrowed.values.flatMap(\.values)
      stored.intents = Array(state.intents.values)
      stored.logins = Array(state.logins.values)
      stored.revocations = Array(state.revocations.values)
      stored.values = state.values
      return stored
    }
  }

  func commit(_ changes: [Change]) async throws(StoreError) {
    try await works(for: changes)
    try apply(changes)
  }

  private func works(for changes: [Change]) async throws(StoreError) {
    while true {
      let mode = state.withLock { $0.concerns(changes) ? $0.mode : .works }
      switch mode {
      case .works: return
      case .fails: throw Self.failure
      case .hangs:
        await withCheckedContinuation { continuation in
          let goesOn = state.withLock { state in
            guard state.mode == .hangs else { return true }
            state.hanging.append(continuation)
            return false
          }
          if goesOn { continuation.resume() }
        }
      }
    }
  }

  func close() async {}

  func examine() async throws(StoreError) -> [String] {
    if let error = state.withLock(\.visible) { throw error }
    return []
  }

  /// A mode concerns it as it concerns a commit of nothing.
  func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {
    try await works(for: [])
    var whole = state
    for account in accounts { whole.add(try account.read(.whole)) }
    self.state.withLock { [whole] state in
      state.found = nil
      state.rebuilt.append(whole)
      state.grants = Dictionary(uniqueKeysWithValues: whole.grants.map { ($0.account, $0) })
      state.tokens = [:]
      state.narrowed = [:]
      for token in whole.tokens { Self.apply(.putToken(token), to: &state) }
      state.intents = Dictionary(uniqueKeysWithValues: whole.intents.map { ($0.account, $0) })
      state.logins = Dictionary(uniqueKeysWithValues: whole.logins.map { ($0.id, $0) })
      state.revocations = Dictionary(uniqueKeysWithValues: whole.revocations.map { ($0.id, $0) })
      state.values = whole.values
    }
  }

  /// The next look at the database finds this.
  func finds(_ error: StoreError?) { state.withLock { $0.found = error } }
  /// The state that it was rebuilt from.
  var rebuilt: [StoredState] { state.withLock { $0.rebuilt } }

  /// Tokens and intents belong to a grant, as in the database: a commit that leaves one without is refused.
  func apply(_ changes: [Change]) throws(StoreError) {
    let isSound = state.withLock { state in
      var next = state
      for change in changes { Self.apply(change, to: &next) }
      let owners = Array(next.tokens.keys) + next.intents.keys + next.narrowed.keys
      guard owners.allSatisfy({ next.grants[$0] != nil }) else { return false }
      next.log.append(changes)
      state = next
      return true
    }
    if !isSound { throw .unwritable(path: "memory", detail: "a token or an intent without its grant") }
  }

  private static func apply(_ change: Change, to state: inout State) {
    switch change {
    case .putGrant(let grant): state.grants[grant.account] = grant
    case .removeGrant(let account):
      state.grants[account] = nil
      state.tokens[account] = nil
      state.narrowed[account] = nil
      state.intents[account] = nil
    case .putIssuer: break
    case .putToken(let token):
      if token.key.isNarrowed {
        state.narrowed[token.account, default: [:]][token.key] = token
      } else {
        state.tokens[token.account] = token
      }
    case .removeTokens(let account):
      state.tokens[account] = nil
      state.narrowed[account] = nil
    case .removeToken(let account, let key) where key.isNarrowed: state.narrowed[account]?[key] = nil
    case .removeToken(let account, _): state.tokens[account] = nil
    case .putIntent(let intent): state.intents[intent.account] = intent
    case .removeIntent(let account): state.intents[account] = nil
    case .putLogin(let login): state.logins[login.id] = login
    case .removeLogin(let id): state.logins[id] = nil
    case .putRevocation(let revocation): state.revocations[revocation.id] = revocation
    case .removeRevocation(let id): state.revocations[id] = nil
    case .putRegistration(let registration): state.registrations[registration.provider] = registration
    case .removeRegistration(let provider): state.registrations[provider] = nil
    case .putValue(let name, let value): state.values[name] = value
    }
  }
}

/// Whether a commit brings a refreshed token.
let isRenewal: @Sendable ([Change]) -> Bool = { changes in
  changes.contains { if case .putToken = $0 { true } else { false } }
}
