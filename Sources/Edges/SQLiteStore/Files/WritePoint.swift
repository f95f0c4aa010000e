/// The progress of a commit, for tests of its state after the end of the process.
package enum WritePoint: Sendable, Equatable {
  case taken(commits: Int)
  case applied
  case committed
  /// Within the transaction of a migration.
  case migrated(to: Int)
  case rebuilding(RebuildStep)
  case rotating(RotationStep)
}

package enum RebuildStep: String, Sendable, CaseIterable {
  /// The new database is complete, under a name that no start reads.
  case drafted
  /// A start would read it.
  case announced
  /// The old database has another name.
  case putAside = "put-aside"
  /// The new database has its name.
  case installed
}

package enum RotationStep: String, Sendable, CaseIterable {
  /// The new key is on disk, beside the old one.
  case keyWritten = "key-written"
  /// Every value is under it, within the transaction.
  case resealed
  /// On disk.
  case resealCommitted = "reseal-committed"
  /// The log holds nothing under the old key.
  case logCut = "log-cut"
  /// The new key has the old one's place.
  case keyInstalled = "key-installed"
}
