public import Broker
import Dispatch
import SQLite
import Sealing
import Synchronization

// A new database instead of a missing or damaged one.
extension SQLiteStore {
  /// Commits in progress at the call, and later ones before its end, are written into the new database after `state`.
  public func rebuild(from state: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {
    try await alone(for: .rebuild) { () throws(StoreError) in try self.replace(with: state, accounts) }.get()
  }

  /// On the queue, while no commit is written: later ones wait.
  func alone<Value: Sendable, Failure: StoreFailure>(
    for what: Inbox.Work, _ work: @escaping @Sendable () throws(Failure) -> Value
  ) async -> Result<Value, Failure> {
    await withCheckedContinuation { (continuation: CheckedContinuation<Result<Value, Failure>, Never>) in
      let isOpen = inbox.withLock { inbox in
        guard inbox.begin(what) else { return false }
        queues.commits.async {
          do throws(Failure) {
            continuation.resume(returning: .success(try work()))
          } catch {
            continuation.resume(returning: .failure(error))
          }
          if self.inbox.withLock({ $0.end(what) }) { self.drain() }
        }
        return true
      }
      if !isOpen { continuation.resume(returning: .failure(Failure(.closed))) }
    }
  }

  // MARK: On the queue

  private func replace(with state: StoredState, _ accounts: [any PackedAccount]) throws(StoreError) {
    do throws(StoreError) {
      try ownFolder()
    } catch .unreadable(let path, let detail) {
      throw .unwritable(path: path, detail: detail)
    }
    let key = home.withLock { $0.key }
    // Nothing is sealed under a key that the next start would not find: what took the database may have taken the key.
    do throws(SealingError) {
      try key.file?.keep(key, inside: opening.folder.path, restores: true)
    } catch {
      throw StoreError(error)
    }
    try opening.folder.withdrawSuccessor()
    let names = Set(state.setAside.map(\.name))
    let rows = unreadable.withLock { rows in rows.kept.filter { names.contains($0.key) }.map(\.value) }
    try opening.draft(state, accounts, kept: rows, under: key, commits: home.withLock { $0.commits.count })
    let report = { (step: RebuildStep) in self.opening.onWritePoint?(.rebuilding(step)) ?? () }
    report(.drafted)
    try installDraft(report)
    // Memory has them, or later data.
    removeEmergencySaves(home.withLock { $0.emergencySaves })
  }

  /// Replaces the database with the draft, and opens it.
  func installDraft(_ report: (RebuildStep) -> Void) throws(StoreError) {
    let files = home.withLock { home in
      defer { home.files = nil }
      return home.files
    }
    do throws(StoreError) {
      try opening.folder.announceDraft()
      report(.announced)
      try opening.folder.installSuccessor(onStep: report)
    } catch {
      home.withLock { $0.files = files }
      throw error
    }
    // SQLite sees that its file has moved, and so neither changes nor removes anything as it closes.
    let old = home.withLock { home in
      defer { home.database = nil }
      home.files = OpenFiles(in: opening.folder)
      return home.database
    }
    try? old?.close()
    _ = try database()
  }

  /// The folder and the lock may be gone as well: then another process could own the store by now.
  private func ownFolder() throws(StoreError) {
    _ = try acquireLock(in: try StateFolder.prepare(opening.folder.path))
  }
}

/// An error that work on the store's queue may end with.
protocol StoreFailure: Error {
  init(_ error: StoreError)
}

extension StoreError: StoreFailure {
  init(_ error: StoreError) { self = error }
}

extension KeyRotationError: StoreFailure {
  init(_ error: StoreError) { self = .store(error) }
}
