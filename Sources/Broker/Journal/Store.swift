public import Grants

/// The broker's state on disk. One process owns it.
public protocol Store: Sendable {
  /// All that is there, at start.
  func load() async throws(StoreError) -> StoredState

  /// All or nothing, and on disk when it returns. Commits of many callers may share one transaction.
  func commit(_ changes: [Change]) async throws(StoreError)

  /// Whether the database is still there and still the one that was opened; writes nothing. Whoever writes into a
  /// database whose file was removed loses it all at the next start.
  func examine() async throws(StoreError)

  /// The database is damaged or gone: puts what is left of it aside and writes a new one, which is on disk when this
  /// returns. Commits meanwhile go to the new one. Where it fails, nothing has changed and it can be tried again.
  func rebuild(from state: StoredState) async throws(StoreError)

  /// Where it is, for people.
  var location: String { get }

  /// Ends after what was committed is on disk. Later commits fail.
  func close() async
}

/// All that is on disk.
public struct StoredState: Sendable, Equatable {
  public var grants: [SavedGrant] = []
  public var tokens: [SavedToken] = []
  public var intents: [RefreshIntent] = []
  public var logins: [SavedLogin] = []
  public var revocations: [PendingRevocation] = []
  public var registrations: [SavedRegistration] = []
  /// Small values by name, such as the port that the callback endpoint had.
  public var values: [String: String] = [:]

  public init() {}
}

/// One change to what is on disk. `put` replaces what has the same key.
public enum Change: Sendable, Equatable {
  case putGrant(SavedGrant)
  /// With its tokens and its intent.
  case removeGrant(AccountName)
  case putToken(SavedToken)
  case removeTokens(AccountName)
  case removeToken(AccountName, SavedToken.Key)
  case putIntent(RefreshIntent)
  case removeIntent(AccountName)
  case putLogin(SavedLogin)
  case removeLogin(LoginID)
  case putRevocation(PendingRevocation)
  case removeRevocation(String)
  case putRegistration(SavedRegistration)
  case removeRegistration(ProviderName)
  case putValue(String, String)
}

/// Why the store could not do it. Each says what to do next.
public enum StoreError: Error, Sendable, Equatable {
  /// Another process has it: its pid where known.
  case owned(path: String, pid: Int32?)
  /// Written by a newer version.
  case newer(path: String, found: Int, known: Int)
  /// No database, or damaged.
  case corrupt(path: String, detail: String)
  /// The file of the open database was removed or replaced.
  case missing(path: String)
  /// Sealed under another key.
  case wrongKey(path: String, keySource: String)
  /// The key cannot be read or has the wrong form.
  case unusableKey(source: String, detail: String)
  /// Cannot be opened: permissions, a missing folder.
  case unreadable(path: String, detail: String)
  /// Open, but this change could not be written: disk full, read-only, an I/O error. What was there is unharmed.
  case unwritable(path: String, detail: String)
  case closed
}
