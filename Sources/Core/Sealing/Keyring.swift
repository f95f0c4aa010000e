public import FoundationEssentials

/// The keys that open a store, and its current one.
///
/// A store has a note of its key: `Keyring.note(under:)`, in the row ``noteName`` of its table `meta`, written in one
/// transaction with the values sealed under that key. So the next start can finish a rotation that was interrupted, or
/// undo it:
///
/// let under = try keyring.find(note) // .previous: seal all values and the note again, under `keyring.key` //
/// mayLeaveOldValues(under): empty data under the old key, such as a log let settled = keyring.finish(under)
public struct Keyring: Sendable {
  /// The row of the note.
  public static let noteName = "key_check"
  private static let noteText = Data("grantd".utf8)
  private static let notePlace = Place(table: "meta", row: [noteName])
  private static let noteColumn = "value"

  /// The key that a store was found under.
  public enum StoreKeyState: Sendable {
    case key
    /// The key that an interrupted rotation left next to it.
    case next(SealingKey)
    /// The values are under the old key, or under the key of an earlier rotation.
    case previous(SealingKey)
  }

  /// The keys when all is under one.
  public struct Settled: Sendable {
    public let key: SealingKey
    public let notices: [KeyNotice]
  }

  /// The store's intended key.
  public let key: SealingKey
  /// The possible old keys of data, if the key changes.
  public let previous: [SealingKey]

  public init(_ key: SealingKey, previous: [SealingKey] = []) {
    self.key = key
    self.previous = previous
  }

  /// The note of a store whose values `sealer` seals. What Crypto throws is a fault of the program.
  public static func note(under sealer: Sealer) throws -> Data {
    try sealer.seal(noteText, at: notePlace, column: noteColumn)
  }

  /// The key that a store with this note is under. Throws `otherKey` where it is none of these, and `damaged`.
  public func find(_ note: Data) throws(Sealer.Failure) -> StoreKeyState {
    for (sealer, under) in candidates {
      do throws(Sealer.Failure) {
        if try sealer.open(note, at: Self.notePlace, column: Self.noteColumn) == Self.noteText { return under }
      } catch .otherKey {
        continue
      }
    }
    throw .otherKey
  }

  /// The key that a store is under whose note is lost; nil: none of these.
  ///
  /// - Parameter opens: whether values of the store open under this key.
  public func find(where opens: (Sealer) -> Bool) -> StoreKeyState? { candidates.first { opens($0.0) }?.1 }

  /// The store stays under this key for now, and nothing of a change to it is done or taken back.
  public func unchanged(_ key: SealingKey) -> Settled { Settled(key: key, notices: []) }

  /// The key itself.
  public func key(_ under: StoreKeyState) -> SealingKey {
    switch under {
    case .key: key
    case .next(let key), .previous(let key): key
    }
  }

  private var candidates: [(Sealer, StoreKeyState)] {
    var candidates: [(Sealer, StoreKeyState)] = [(key.sealer, .key)]
    if let next = key.next { candidates.append((Sealer(key: next), .next(key.replaced(by: next)))) }
    for old in previous {
      for key in [old] + (old.next.map { [old.replaced(by: $0)] } ?? []) {
        candidates.append((key.sealer, .previous(key)))
      }
    }
    return candidates
  }

  /// Whether there may be values under another key than ``key`` beside the store's own, such as in a log.
  public func mayLeaveOldValues(_ under: StoreKeyState) -> Bool {
    switch under {
    case .key: key.file?.hasAbandonedNext(besides: key) == true || !previous.isEmpty
    case .next, .previous: true
    }
  }

  /// All values are under ``key`` by now, or under the next one: the key files are brought in line with that.
  public func finish(_ under: StoreKeyState) -> Settled {
    switch under {
    case .key:
      removeAbandonedNext()
      return Settled(key: key.replaced(), notices: unneeded())
    case .next(let next):
      // If it is impossible now, the next start or rotation does it: both keys exist.
      try? next.file?.installNext()
      return Settled(key: next, notices: [.finished(file: next.source)] + unneeded())
    case .previous(let old):
      removeAbandonedNext()
      return Settled(
        key: key.replaced(),
        notices: [.resealed(under: key.source, from: old.source)] + unneeded(besides: old.source))
    }
  }

  /// The keys of a store that is new: all its values are under ``key``.
  public var settledNew: Settled { Settled(key: key, notices: unneeded()) }

  private func removeAbandonedNext() {
    if let file = key.file, file.hasAbandonedNext(besides: key) { file.removeNext() }
  }

  private func unneeded(besides used: String? = nil) -> [KeyNotice] {
    previous.filter { $0.source != used }.map { .unneeded(source: $0.source) }
  }
}

/// What happened to keys as a store was opened, for the log.
public enum KeyNotice: Sendable, Equatable {
  case resealed(under: String, from: String)
  /// A rotation that the end of the process interrupted was finished.
  case finished(file: String)
  /// Nothing is sealed under it.
  case unneeded(source: String)

  /// For people, without a full stop.
  public var message: String {
    switch self {
    case .resealed(let new, let old):
      "the state was sealed again under the key in \(new); the one in \(old) is no longer needed and can be removed"
    case .finished(let file): "a change of the key in \(file) that was interrupted was finished"
    case .unneeded(let source): "nothing is sealed under the key in \(source): it can be removed"
    }
  }
}
