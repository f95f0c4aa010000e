import Broker
import OAuth
import Synchronization

/// An audit trail in memory, which fails on request.
final class MemoryAuditStore: AuditStore {
  private struct State {
    var records: [Int64: AuditRecord] = [:]
    var failure: StoreError?
    var writes = 0
    var forgotten: (before: Timestamp, most: Int)?
  }

  private let state = Mutex(State())

  var records: [AuditRecord] { state.withLock { $0.records.values.sorted { $0.id < $1.id } } }
  /// Without the records of starts.
  var sinceStart: [AuditRecord] { records.filter { $0.entry.method != "broker.start" } }
  var writes: Int { state.withLock { $0.writes } }
  var forgotten: (before: Timestamp, most: Int)? { state.withLock { $0.forgotten } }

  func fail(with error: StoreError?) { state.withLock { $0.failure = error } }

  func lastID() async throws(StoreError) -> Int64 { records.last?.id ?? 0 }

  func write(_ records: [AuditRecord], most: Int) async throws(StoreError) {
    let failure = state.withLock { state -> StoreError? in
      guard state.failure == nil else { return state.failure }
      state.writes += 1
      for record in records { state.records[record.id] = record }
      return nil
    }
    if let failure { throw failure }
  }

  func read(_ question: AuditQuestion) async throws(StoreError) -> [AuditRecord] {
    func isWanted(_ record: AuditRecord) -> Bool {
      let account = record.entry.account
      if let wanted = question.account, wanted != account { return false }
      if let before = question.before, record.id >= before { return false }
      if question.refusalsOnly, !record.entry.isRefusal { return false }
      guard let patterns = question.accounts else { return true }
      return account.map { account in patterns.contains { wildcard($0, matches: account) } } ?? false
    }
    return Array(records.reversed().filter(isWanted).prefix(question.limit))
  }

  func removeRecords(before moment: Timestamp, most: Int) async throws(StoreError) {
    state.withLock { $0.forgotten = (moment, most) }
  }
}
