import Grants

/// Accounts that trade another's token for their own, and have to have it first.
struct RefreshTrades {
  var fetching: Set<AccountName> = []
  /// Those that have what they trade and wait for a place, since when.
  var fetched: [AccountName: Duration] = [:]
}
