import Grants
import Logging

// What is known of an account reaches the disk in turn: a refresh, a login and a logout that meet could otherwise leave
// on disk the one that lost in memory.
extension Broker {
  /// Waits for the account's turn. Then: look again, commit, change the state, ``leaveTurn(_:)``.
  func takeTurn(_ account: AccountName) async {
    guard turns[account] != nil else {
      turns[account] = []
      return
    }
    await withCheckedContinuation { turns[account]?.append($0) }
  }

  func leaveTurn(_ account: AccountName) {
    guard var queue = turns[account] else { return }
    guard !queue.isEmpty else {
      turns[account] = nil
      return
    }
    let next = queue.removeFirst()
    turns[account] = queue
    next.resume()
  }

  /// Saves the grant as it is when its turn comes; nothing where it is gone by then.
  func saveStanding(of account: AccountName, _ what: String) async {
    await takeTurn(account)
    defer { leaveTurn(account) }
    guard let grant = grants[account] else { return }
    var changes = [Change.putGrant(grant.saved), grant.intent.map { .putIntent($0) } ?? .removeIntent(account)]
    // A restart must not hand out again what a resource server refused.
    if grant.isTokenRejected { changes.append(.removeToken(account, SavedToken.Key())) }
    do throws(StoreError) {
      try await commit(changes)
    } catch {
      logger.warning("not saved yet: \(what)", metadata: ["account": "\(account)"])
      unsaved.insert(account)
    }
  }
}
