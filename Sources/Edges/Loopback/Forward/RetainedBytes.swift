import BrokerAPI
import Principals
import Synchronization

/// The bytes of request bodies that are kept in case they have to be sent again, by holder.
final class RetainedBytes: Sendable {
  private let budget: Mutex<Budget>

  init(all: Int = 64 << 20, perHolder: Int = 16 << 20) {
    budget = Mutex(
      Budget(Budget.Limits(all: all, perHolder: perHolder, unnamedShare: 1.0 / 16, least: RetainedBody.longest)))
  }

  /// False: the holder, or all together, keep too much already.
  func acquire(_ count: Int, for share: Share) -> Bool { budget.withLock { $0.acquire(count, for: share) == nil } }

  func giveBack(_ count: Int, of share: Share) {
    guard count > 0 else { return }
    budget.withLock { $0.giveBack(count, of: share) }
  }

  /// The total of all holders except root and the broker's own user.
  var used: Int { budget.withLock { $0.used } }
}
