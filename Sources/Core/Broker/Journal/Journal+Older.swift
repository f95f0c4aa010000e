import OAuth

// An older copy of the database: commits of earlier runs are missing.
extension Journal {
  /// The value that remembers it: how many commits are missing, the time of the last one, and when that was found.
  private static let olderName = "store.older"

  /// The database is older than that of the last run; nil: as far as is known it is not.
  var older: (lost: LostCommits, found: Timestamp)? {
    let numbers = values[Self.olderName, default: ""].split(separator: " ").compactMap { Int64($0) }
    guard numbers.count == 3 else { return nil }
    return (LostCommits(count: numbers[0], last: Timestamp(seconds: numbers[1])), Timestamp(seconds: numbers[2]))
  }

  /// A start found that commits are missing.
  func recordOlder(_ lost: LostCommits) async {
    await put(
      Self.olderName, "\(lost.count) \(lost.last.seconds) \(now.seconds)", "that the database is an older copy")
  }
}
