import Grants
import OAuth

/// Refreshes of several accounts, refused with a code that usually concerns the client (`invalid_client`, …), without a
/// success in between.
///
/// One refused account does not show that others are refused: its refresh token may be the reason. After several, refreshes that
/// no caller waits for rest; an account whose caller waits is still tried, since it has not shown the error itself.
struct ClientRefusals: Sendable {
  /// This many accounts make it likely that the client is refused.
  static let most = 3

  private var accounts: Set<AccountName> = []
  private(set) var failure: FailureRecord?
  /// Until then refreshes rest that no caller waits for.
  var until: Timestamp?

  mutating func add(_ account: AccountName, _ failure: FailureRecord, at now: Timestamp) {
    if accounts.count < Self.most { accounts.insert(account) }
    self.failure = failure
    if accounts.count >= Self.most { until = now + Limit.suspension }
  }

  /// Why refreshes rest now, if they do. A rest that is longer than any is from before the clock was set back.
  func rest(at now: Timestamp) -> (failure: FailureRecord, until: Timestamp)? {
    guard let failure, let until, until > now, until - now <= Limit.suspension else { return nil }
    return (failure, until)
  }
}
