import Broker
import Foundation
import Grants
import SQLiteStore
import Scheduling

/// The store of the broker: the real store in a real folder, or rows in memory, behind a disk with faults.
final class ModelStore: Store, @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  private let disk: ModelDisk
  private let run: Int
  private let real: SQLiteStore?

  init(_ disk: ModelDisk, run: Int, real: SQLiteStore?) {
    self.disk = disk
    self.run = run
    self.real = real
  }

  var location: String { "simulated" }

  func load() async throws(StoreError) -> StoredState {
    if let finding = disk.finding { throw finding }
    guard let real else { return disk.contents.state }
    let outcome = await outside { () async throws(StoreError) in try await real.load() }
    let state = try outcome.get()
    if StoredContents(state) != disk.contents {
      disk.world.violated(.store, "the store returns other rows than the committed ones")
    }
    return state
  }

  func accounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount] {
    let state = try await load()
    guard let real else {
      return state.accounts.filter { one in account.map { one.grant.account > $0 } ?? true }.prefix(most).map(pack)
    }
    return try await outside { () async throws(StoreError) in
      try await real.accounts(after: account, most: most)
    }.get()
  }

  func pack(_ account: StoredAccount) -> any PackedAccount { real?.pack(account) ?? UnpackedAccount(account) }

  func commit(_ changes: [Change]) async throws(StoreError) {
    let verdict = await withUnsafeContinuation { (continuation: UnsafeContinuation<ModelDisk.Verdict, Never>) in
      guard disk.world.run == run else { return continuation.resume(returning: .fail(.closed)) }
      disk.write { continuation.resume(returning: $0) }
    }
    // It was stopped, and killed before it continued.
    guard disk.world.run == run else { throw .closed }
    switch verdict {
    case .fail(let error): throw error
    case .write:
      try await write(changes)
    case .writeThenCrash:
      try await write(changes)
      // No process gets the answer: the process ends at this moment.
      await disk.world.untilCrash()
      throw .closed
    }
  }

  private func write(_ changes: [Change]) async throws(StoreError) {
    if let real {
      try await outside { () async throws(StoreError) in try await real.commit(changes) }.get()
    }
    disk.apply(changes)
  }

  func examine() async throws(StoreError) -> [String] {
    if let real, disk.trouble == .missing {
      return try await outside { () async throws(StoreError) in try await real.examine() }.get()
    }
    if let finding = disk.finding { throw finding }
    return []
  }

  func rebuild(from rest: StoredState, accounts: [any PackedAccount]) async throws(StoreError) {
    var state = rest
    for account in accounts { state.add(try account.read(.whole)) }
    let whole = state
    let verdict = await withUnsafeContinuation { (continuation: UnsafeContinuation<ModelDisk.Verdict, Never>) in
      guard disk.world.run == run else { return continuation.resume(returning: .fail(.closed)) }
      disk.write(isRebuild: true) { continuation.resume(returning: $0) }
    }
    if case .fail(let error) = verdict { throw error }
    if let real {
      try await outside { () async throws(StoreError) in try await real.rebuild(from: rest, accounts: accounts) }.get()
    }
    disk.replace(by: whole)
    guard case .writeThenCrash = verdict else { return }
    await disk.world.untilCrash()
    throw .closed
  }

  func close() async {
    guard let real else { return }
    _ = await outside { () async throws(StoreError) in await real.close() }
  }

  /// Another thread answers.
  private func outside<Value: Sendable>(
    _ work: @Sendable () async throws(StoreError) -> Value
  ) async -> Result<Value, StoreError> {
    Scheduler.shared.goesOutside()
    let result: Result<Value, StoreError>
    do throws(StoreError) {
      result = .success(try await work())
    } catch {
      result = .failure(error)
    }
    Scheduler.shared.isBack()
    return result
  }
}
