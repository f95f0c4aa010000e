import BrokerAPI
import Grants
import OAuth
import Synchronization

extension Reporter {
  init(_ caller: Caller) { self.init(uid: caller.uid, unit: caller.unit, userUnit: caller.userUnit) }
}

/// Who asks for a token.
struct Asker: Sendable {
  let holder: Holder
  let reporter: Reporter
  /// It wants a newer token than this one.
  var beyond: Int64?
  /// Whether having a good token replaced counts for its budget.
  var isPaced = true

  init(_ caller: Caller) {
    holder = caller.holder
    reporter = Reporter(caller)
  }

  /// The generation that it must not get again; nil: it may have the token that is there.
  func unwanted(_ grant: Grant, _ key: SavedToken.Key) -> Int64? {
    if let generation = grant.token(for: key)?.generation, let beyond, generation <= beyond { return generation }
    return grant.reportedGeneration(by: reporter, key)
  }
}

/// Which tokens were handed out to whom in this run, so that nobody reports what they never had. Kept by socket's loop
/// and broker alike.
final class Handouts: Sendable {
  /// Generations of one account that are kept, and callers of one. Of a generation with more, everybody's report counts.
  static let generations = 8
  static let callers = 64

  private struct Given {
    let generation: Int64
    var callers: Set<Reporter> = []
    var isEverybodys = false
  }

  private let state = Mutex<[String: [Given]]>([:])

  func note(_ account: String, _ generation: Int64, to caller: Reporter) {
    state.withLock { state in
      // The accounts of the cache; those that go are known again with their next token.
      if state[account] == nil, state.count >= Limit.cachedTokens { state.removeAll() }
      var given = state[account] ?? []
      let index = given.firstIndex { $0.generation == generation } ?? given.endIndex
      if index == given.endIndex { given.append(Given(generation: generation)) }
      if given[index].callers.count < Self.callers {
        given[index].callers.insert(caller)
      } else if !given[index].callers.contains(caller) {
        given[index].isEverybodys = true
      }
      state[account] = given.suffix(Self.generations)
    }
  }

  /// Nil: nothing is known of this generation.
  func has(_ account: String, _ generation: Int64, _ caller: Reporter) -> Bool? {
    state.withLock { state in
      state[account]?.first { $0.generation == generation }.map { $0.isEverybodys || $0.callers.contains(caller) }
    }
  }
}

/// How often each holder may have a good token of an account replaced. In memory alone; times are since the machine
/// started.
struct ReplacementBudgets {
  /// At once, and how long until one more.
  static let burst = 3.0
  static let pause = Duration.seconds(300)
  /// Entries; those that are full again go first.
  static let most = 4096

  private struct Key: Hashable {
    let account: AccountName
    let holder: Holder
  }

  private struct Level {
    var left: Double
    var at: Duration
  }

  private var levels: [Key: Level] = [:]
  /// For whom good tokens are being replaced.
  private var pending: [AccountName: Holder] = [:]

  /// The account's refresh starts for this holder alone.
  mutating func begin(_ account: AccountName, for holder: Holder) { pending[account] = holder }

  /// The account's refresh has ended. A new token is charged to the holder that it was for.
  mutating func end(_ account: AccountName, isReplaced: Bool, at now: Duration) {
    guard let holder = pending.removeValue(forKey: account), isReplaced else { return }
    let key = Key(account: account, holder: holder)
    if levels[key] == nil, levels.count >= Self.most { makeRoom(at: now) }
    levels[key] = Level(left: max(0, left(key, at: now) - 1), at: now)
  }

  /// The account is gone.
  mutating func forget(_ account: AccountName) { pending[account] = nil }

  /// How long it has to wait until it may have one replaced; nil: not at all.
  func wait(_ account: AccountName, _ holder: Holder, at now: Duration) -> Duration? {
    let left = left(Key(account: account, holder: holder), at: now)
    return left >= 1 ? nil : Self.pause.scaled(by: 1 - left)
  }

  private func left(_ key: Key, at now: Duration) -> Double {
    guard let level = levels[key] else { return Self.burst }
    return min(Self.burst, level.left + (now - level.at).inSeconds / Self.pause.inSeconds)
  }

  /// Where all are in use, the one that is nearest to full goes.
  private mutating func makeRoom(at now: Duration) {
    levels = levels.filter { left($0.key, at: now) < Self.burst }
    guard levels.count >= Self.most, let fullest = levels.keys.max(by: { left($0, at: now) < left($1, at: now) }) else {
      return
    }
    levels[fullest] = nil
  }
}
