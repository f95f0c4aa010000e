import Broker
import BrokerAPI
import FoundationEssentials
import GrantdConfiguration
import Logging
import OAuth
import PostgreSQLStore
import SQLiteStore
import Sealing
import Systemd

/// Opens what `[store]` names: the machine's own SQLite database, and the one that several machines share.
struct StoreOpening {
  static let passwordCredential = "grantd.database-password"

  let places: Places
  let settings: Settings
  let notifier: Notifier
  let logger: Logger

  /// The store of the broker. One value has both protocols.
  struct Opened {
    let store: any Store
    let administration: any StoreAdministration
  }

  private func keys() throws(StoreError) -> SealingKeys {
    try SealingKeys(
      settings.store.keyFile, folder: places.stateFolder(settings), credentials: places.credentialsDirectory)
  }

  func own(_ emergencyStore: EmergencyStore) throws -> SQLiteStore {
    let folder = places.stateFolder(settings)
    do throws(StoreError) {
      let keys = try keys()
      if places.instance == .user { LockedKey(folder: folder).removeOther(than: keys.key) }
      let onMigration: @Sendable (Int, Int) -> Void = { [notifier] step, all in
        notifier.status("preparing the database: step \(step) of \(all)")
        notifier.extendTimeout(by: Daemon.stepTime)
      }
      let store: SQLiteStore
      #if DEBUG
        store = try SQLiteStore.open(
          folder: folder, key: keys.key, previousKeys: keys.previous, countFile: places.countFile(settings),
          pageLimit: nil, onWritePoint: CrashPoint.wanted(), onMigration: onMigration)
      #else
        store = try SQLiteStore.open(
          folder: folder, key: keys.key, previousKeys: keys.previous, countFile: places.countFile(settings),
          onMigration: onMigration)
      #endif
      if let limitation = store.limitation { logger.warning("\(limitation)") }
      for notice in store.repairsToLog() { logger.error("\(notice)") }
      for notice in store.keyNotices { logger.notice("\(notice.message)") }
      return store
    } catch {
      var failure = DaemonFailure(error)
      if case .corrupt = error { emergencyStore.mention(in: &failure) }
      throw failure
    }
  }

  func store(_ own: SQLiteStore) async throws -> Opened {
    guard settings.store.kind == .postgresql, let connection = settings.store.connection else {
      return Opened(store: own, administration: own)
    }
    notifier.status("connecting to PostgreSQL")
    do throws(StoreError) {
      let store = try await PostgreSQLStore.open(
        own: own, key: try keys().key, connection: connection, password: try password(), machine: Live.host,
        version: GrantdVersion.current, system: Live.system)
      for notice in store.notices { logger.warning("\(notice)") }
      return Opened(store: store, administration: store)
    } catch {
      await own.close()
      throw DaemonFailure(error)
    }
  }

  private func password() throws(StoreError) -> Secret? {
    if let password = settings.store.password { return password }
    guard let directory = places.credentialsDirectory else { return nil }
    let source = "\(directory)/\(Self.passwordCredential)"
    do throws(Credentials.Failure) {
      let bytes = try Credentials(directory: directory).read(Self.passwordCredential)
      let text = String(decoding: bytes, as: UTF8.self)
      return Secret(text.hasSuffix("\n") ? String(text.dropLast()) : text)
    } catch {
      guard case .absent = error else { throw .unreadable(path: source, detail: error.description) }
      return nil
    }
  }
}
