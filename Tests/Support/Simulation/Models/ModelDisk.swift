import Broker
import Foundation
import Grants
import SQLiteStore

/// The contents of the disk after a crash, and the faults of writing to it.
final class ModelDisk {
  enum Trouble: String {
    case full
    /// Commits take seconds.
    case slow
    /// The database is damaged: nothing is written until there is a new one.
    case gone
    /// The file of the open database was removed: commits succeed, and would not survive.
    case missing
  }

  enum Verdict {
    case write
    /// On disk, and the process ends before it gets the answer.
    case writeThenCrash
    case fail(StoreError)
  }

  private struct Waiting {
    let isRebuild: Bool
    let answer: (Verdict) -> Void
  }

  unowned let world: World
  private var random: Randomness
  private(set) var contents = StoredContents()
  var trouble: Trouble?
  /// When it was last in trouble.
  var lastTrouble: Moment = .min / 2
  /// One of this number of commits meets a crash; 0: none.
  var crashesOneIn = 0
  /// To test the check: one of this number of commits is lost, although it was answered as done.
  var dropsOneIn = 0
  private var queue: [Waiting] = []
  private var busyUntil: Moment = 0
  /// The time at which the commits of a slow period are written.
  private(set) var slowUntil: Moment = .min / 2

  init(_ world: World, seed: UInt64) {
    self.world = world
    random = Randomness(seed: seed, .disk)
  }

  /// Takes a commit or a rebuild; the answers come in the order of the questions.
  func write(isRebuild: Bool = false, answer: @escaping (Verdict) -> Void) {
    world.counts.add(isRebuild ? "rebuilds tried" : "commits")
    queue.append(Waiting(isRebuild: isRebuild, answer: answer))
    let wait = trouble == .slow ? random.between(1, 20 * second) : random.between(0, 5)
    busyUntil = max(busyUntil, world.now) + wait
    if trouble == .slow { slowUntil = busyUntil }
    world.time.at(busyUntil) { self.serve() }
  }

  private func serve() {
    guard !queue.isEmpty else { return }
    let first = queue.removeFirst()
    if crashesOneIn > 0, trouble != .missing, random.below(crashesOneIn) == 0 {
      if random.chance(0.5) {
        world.counts.add("crashes before a commit")
        queue.insert(first, at: 0)
        world.crash("before a commit")
      } else {
        world.counts.add("crashes after a commit")
        first.answer(.writeThenCrash)
        world.time.after(0) { self.world.crash("after a commit, before its answer") }
      }
      return
    }
    switch trouble {
    case nil, .slow, .missing: first.answer(.write)
    case .full:
      world.counts.add("commits on a full disk")
      first.answer(.fail(.unwritable(path: "simulated", detail: "the disk is full")))
    case .gone:
      world.counts.add("commits without a database")
      first.answer(first.isRebuild && random.chance(0.5) ? .write : .fail(Self.damaged))
    }
  }

  func crash() {
    let dead = queue
    queue = []
    busyUntil = world.now
    slowUntil = min(slowUntil, world.now)
    for waiting in dead { waiting.answer(.fail(.closed)) }
  }

  /// The commit is on disk: from now on it survives.
  func apply(_ changes: [Change]) {
    if dropsOneIn > 0, random.below(dropsOneIn) == 0, changes.contains(where: \.isOfGrant) { return }
    for change in changes { contents.apply(change) }
    world.committed(changes)
  }

  /// The contents before the simulation began.
  func prepare(_ changes: [Change]) {
    for change in changes { contents.apply(change) }
    world.wasThere(changes)
  }

  /// A new database replaced the old one.
  func replace(by state: StoredState) {
    world.counts.add("rebuilds")
    world.trace.add(world.now, "    disk: rebuilt")
    let before = contents
    contents = StoredContents(state)
    if trouble == .gone || trouble == .missing {
      trouble = nil
      lastTrouble = world.now
    }
    for (name, grant) in before.grants where contents.grants[name] == nil { world.isMissing(grant) }
    world.committed(state.grants.map { .putGrant($0) })
  }

  /// The result of a check of the database.
  var finding: StoreError? {
    switch trouble {
    case nil, .slow, .full: nil
    case .gone: Self.damaged
    case .missing: .missing(path: "simulated")
    }
  }

  private static let damaged = StoreError.corrupt(path: "simulated", detail: "it was removed")
}

/// The rows by the store's contract: `put` replaces the row with the same key.
struct StoredContents: Equatable {
  var grants: [AccountName: SavedGrant] = [:]
  /// Each account's own.
  var tokens: [AccountName: SavedToken] = [:]
  var narrowed: [AccountName: [SavedToken.Key: SavedToken]] = [:]
  var intents: [AccountName: RefreshIntent] = [:]
  var logins: [LoginID: SavedLogin] = [:]
  var revocations: [String: PendingRevocation] = [:]
  var values: [String: String] = [:]

  init() {}

  init(_ state: StoredState) {
    for grant in state.grants { grants[grant.account] = grant }
    for token in state.tokens { apply(.putToken(token)) }
    for intent in state.intents { intents[intent.account] = intent }
    for login in state.logins { logins[login.id] = login }
    for revocation in state.revocations { revocations[revocation.id] = revocation }
    values = state.values
  }

  var state: StoredState {
    var state = StoredState()
    state.grants = Array(grants.values)
    state.tokens = Array(tokens.values) + narrowed.values.flatMap(\.values)
    state.intents = Array(intents.values)
    state.logins = Array(logins.values)
    state.revocations = Array(revocations.values)
    state.values = values
    return state
  }

  mutating func apply(_ change: Change) {
    switch change {
    case .putGrant(let grant): grants[grant.account] = grant
    case .removeGrant(let account):
      grants[account] = nil
      tokens[account] = nil
      narrowed[account] = nil
      intents[account] = nil
    case .putIssuer: break
    case .putToken(let token) where token.key.isNarrowed:
      narrowed[token.account, default: [:]][token.key] = token
    case .putToken(let token): tokens[token.account] = token
    case .removeTokens(let account):
      tokens[account] = nil
      narrowed[account] = nil
    case .removeToken(let account, let key) where key.isNarrowed:
      let rest = narrowed[account, default: [:]].filter { $0.key != key }
      narrowed[account] = rest.isEmpty ? nil : rest
    case .removeToken(let account, _): tokens[account] = nil
    case .putIntent(let intent): intents[intent.account] = intent
    case .removeIntent(let account): intents[account] = nil
    case .putLogin(let login): logins[login.id] = login
    case .removeLogin(let id): logins[id] = nil
    case .putRevocation(let revocation): revocations[revocation.id] = revocation
    case .removeRevocation(let id): revocations[id] = nil
    case .putRegistration, .removeRegistration: break
    case .putValue(let name, let value): values[name] = value
    }
  }
}

extension Change {
  var isOfGrant: Bool { if case .putGrant = self { true } else { false } }
}
