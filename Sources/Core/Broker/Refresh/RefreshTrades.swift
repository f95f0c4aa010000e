import Grants

/// Accounts that trade another's token for their own, and have to have it first.
struct RefreshTrades {
  var fetching: Set<AccountName> = []
  /// Accounts that have their tokens to exchange and wait for a slot, with the start of the wait.
  var fetched: [AccountName: Duration] = [:]
}
