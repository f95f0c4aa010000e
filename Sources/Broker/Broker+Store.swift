import BrokerAPI
import Grants
import Logging
import OAuth

// While the store fails, tokens in memory keep being served, nothing that could lose a rotation is begun, and the store
// is tried until it works again; then what is newer in memory is written.
extension Broker {
  /// Commits, and remembers whether the store works.
  func commit(_ changes: [Change]) async throws(StoreError) {
    // What is written to a file that was removed is not kept, though SQLite says that it is.
    if let storeFailure, storeFailure.isLoss || isRebuilding { throw storeFailure }
    nextCommit += 1
    let number = nextCommit
    let begun = uptime
    commits[number] = begun
    do throws(StoreError) {
      try await store.commit(changes)
    } catch {
      commits[number] = nil
      measures.committed(took: uptime - begun, failed: true)
      storeFails(error)
      throw error
    }
    commits[number] = nil
    measures.committed(took: uptime - begun, failed: false)
    if storeFailure?.isLoss != true { storeWorks() }
  }

  /// For what is only remembered better: a failure changes nothing that anybody relies on.
  func commitOrWarn(_ changes: [Change], _ what: String) async {
    do throws(StoreError) {
      try await commit(changes)
    } catch {
      logger.warning("not saved: \(what)")
    }
  }

  /// A commit has been under way for so long that a person should look at the disk.
  var storeIsSlow: Bool { commits.values.contains { uptime - $0 > Limit.slowCommit } }

  /// Whether the account's refresh rests until the store works: its answer may hold a refresh token that cannot be had
  /// again.
  func holdsBack(_ grant: Grant) -> StoreError? { canLose(grant.saved) ? storeFailure : nil }

  /// A refresh whose answer never reaches the disk could cost the grant.
  func canLose(_ saved: SavedGrant) -> Bool {
    !saved.kind.needsNobody && providers[saved.provider]?.provider.about.rotation != Rotation.none
  }

  func storeFails(_ error: StoreError) {
    if storeFailure != error {
      logger.error("the state cannot be written: \(error.message)", metadata: ["hint": "\(error.hint)"])
    }
    if storeFailure == nil {
      storeFailingSince = now
      emit(
        Event(
          type: .storeFailed, at: now.seconds, reason: .storeFailure, message: error.message, hint: error.hint))
    }
    storeFailure = error
    updateSummary()
    guard !isMending, !isStopped else { return }
    isMending = true
    Task { await mendStore() }
  }

  private func storeWorks() {
    guard storeFailure != nil else { return }
    logger.notice("the state can be written again")
    storeFailure = nil
    storeFailingSince = nil
    emit(Event(type: .storeRecovered, at: now.seconds))
    updateSummary()
    waiting.wake(.store)
    Task {
      await saveUnsaved()
      waiting.wakeAccounts()
      nudge?.yield()
    }
  }

  private func mendStore() async {
    var delays = Limit.mendingDelays[...]
    while storeFailure != nil, !isStopped {
      await surroundings.sleep(delays.first ?? Limit.longestSleep)
      delays = delays.dropFirst()
      guard storeFailure != nil, !isStopped else { break }
      await tryStore()
    }
    isMending = false
    // It may have failed again in the same breath.
    if let storeFailure, !isStopped { storeFails(storeFailure) }
  }

  /// One commit that says whether the disk takes them again. A database that is damaged or gone is written anew from
  /// memory, which has all of it.
  private func tryStore() async {
    if storeFailure?.isLoss == true { return await rebuildStore() }
    do throws(StoreError) {
      try await store.examine()
      try await commit([.putValue("store.tried", String(now.seconds))])
    } catch {
      storeFails(error)
    }
  }

  private func rebuildStore() async {
    // What is written while memory is copied is in the copy or fails: never in the old database alone.
    isRebuilding = true
    defer { isRebuilding = false }
    for _ in 0..<Limit.rounds where !commits.isEmpty { await surroundings.sleep(.milliseconds(20)) }
    guard commits.isEmpty, let storeFailure, storeFailure.isLoss, !isStopped else { return }
    let before = unsaved
    unsaved = []
    do throws(StoreError) {
      try await store.rebuild(from: everything())
    } catch {
      unsaved.formUnion(before)
      // What is damaged stays so, whatever kept it from being written anew.
      logger.error("the state could not be written anew: \(error.message)", metadata: ["hint": "\(error.hint)"])
      return
    }
    logger.warning("the state was written anew from memory", metadata: ["state": "\(store.location)"])
    storeWorks()
  }

  /// Looks whether the database is still there: a database whose file was removed takes every commit, and is empty after
  /// the next start.
  func examineStore() async {
    guard storeFailure == nil else { return }
    do throws(StoreError) {
      try await store.examine()
    } catch {
      storeFails(error)
    }
  }

  /// All that should be on disk.
  private func everything() -> StoredState {
    var state = StoredState()
    for grant in grants.values {
      state.grants.append(grant.saved)
      state.tokens += grant.livingTokens
      if let intent = grant.intent { state.intents.append(intent) }
    }
    state.logins = logins.values.filter(\.isPending).map(\.saved)
    state.revocations = Array(revocations.values)
    state.registrations = Array(registrations.values)
    state.values = values
    return state
  }

  /// Writes what is newer in memory.
  func saveUnsaved() async {
    for account in unsaved.sorted() {
      await takeTurn(account)
      let saved = await saveWhole(account)
      leaveTurn(account)
      guard saved else { return }
    }
  }

  /// In the account's turn. False: the store still fails.
  private func saveWhole(_ account: AccountName) async -> Bool {
    guard let grant = grants[account] else {
      unsaved.remove(account)
      return true
    }
    var changes = [Change.putGrant(grant.saved), .removeTokens(account)]
    changes += grant.livingTokens.map { .putToken($0) }
    changes.append(grant.intent.map { .putIntent($0) } ?? .removeIntent(account))
    unsaved.remove(account)
    do throws(StoreError) {
      try await commit(changes)
      return true
    } catch {
      unsaved.insert(account)
      return false
    }
  }
}

extension StoreError {
  /// What is on disk is damaged or gone: only a new database helps.
  var isLoss: Bool {
    switch self {
    case .corrupt, .missing: true
    case .owned, .newer, .wrongKey, .unusableKey, .unreadable, .unwritable, .closed: false
    }
  }
}
