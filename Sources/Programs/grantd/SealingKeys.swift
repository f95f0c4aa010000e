import Broker
import FoundationEssentials
import Glibc
import SQLiteStore
import Sealing
import Systemd

/// The store's intended key, and its possible earlier ones.
struct SealingKeys {
  static let credential = "grantd.key"
  static let previousCredential = "grantd.key.previous"

  let key: SealingKey
  var previous: [SealingKey] = []

  /// - Parameters:
  ///   - keyFile: the configuration's, which takes precedence.
  ///   - folder: the state folder: the key is there by default.
  ///   - credentials: systemd's folder of credentials.
  init(_ keyFile: String?, folder: String, credentials: String?) throws(StoreError) {
    let own = "\(folder)/grantd.key"
    if let keyFile {
      key = try SealingKey.loadOrCreate(file: keyFile, stateFolder: folder)
    } else if let given = try Self.load(Self.credential, from: credentials) {
      key = given
    } else {
      key = try SealingKey.loadOrCreate(file: own, stateFolder: folder)
    }
    if let old = try Self.load(Self.previousCredential, from: credentials) { previous.append(old) }
    // A user who moves the key leaves this file behind, with the earlier key.
    if !Self.isSame(key.source, own), let old = try? KeyFile(own).load() { previous.append(old) }
  }

  /// One file may have two names; no message may ask to remove it.
  private static func isSame(_ file: String, _ other: String) -> Bool {
    var (one, two) = (stat(), stat())
    return stat(file, &one) == 0 && stat(other, &two) == 0 && one.st_dev == two.st_dev && one.st_ino == two.st_ino
  }

  /// Nil if systemd passed no such credential.
  private static func load(_ name: String, from directory: String?) throws(StoreError) -> SealingKey? {
    guard let directory else { return nil }
    let source = "\(directory)/\(name)"
    let bytes: [UInt8]
    do throws(Credentials.Failure) {
      bytes = try Credentials(directory: directory).read(name)
    } catch {
      guard case .absent = error else { throw .unusableKey(source: source, detail: error.description) }
      return nil
    }
    do throws(SealingError) { return try SealingKey(Data(bytes), source: source) } catch { throw StoreError(error) }
  }
}
