import FoundationEssentials
import Glibc
public import OAuth

/// The sealing key of a locked broker: in the state folder, in a file that opens with a passphrase (scrypt, RFC 7914, by
/// ``BackupFile``), instead of in its key file.
///
/// A second file says that the broker is locked. It is written before the key file is removed, and removed after that was
/// written again: a process that ends in between leaves a locked broker.
public struct LockedKey: Sendable {
  /// Why it is not locked or unlocked.
  public enum Failure: Error, Equatable {
    case wrongPassphrase
    /// No passphrase was given, and the key is not under an earlier one.
    case needsPassphrase
    /// Too short or too long a passphrase.
    case unusablePassphrase(String)
    /// The file that is concerned, and what is wrong.
    case unusable(path: String, detail: String)
  }

  private static let limit = 4096
  private static let magic = "grantd-locked-key 1 "

  private let folder: String
  /// The key under the passphrase. It stays after an unlock, for the next lock.
  public var path: String { "\(folder)/grantd.key.locked" }
  /// Says that the broker is locked; its line is the path of the key file, or nothing.
  var mark: String { "\(folder)/grantd.locked" }

  /// - Parameter folder: of the state.
  public init(folder: String) { self.folder = folder }

  public var isLocked: Bool { access(mark, F_OK) == 0 }

  /// Whether the key can be locked without a passphrase: it is under an earlier one.
  public func holds(_ key: SealingKey) -> Bool { read()?.name == Self.name(of: key) }

  // MARK: Locking

  /// Puts the key under the passphrase, reads it back, and marks the broker as locked.
  ///
  /// - Parameter passphrase: nil: the earlier one.
  /// - Returns: whether ``removeKeyFile()`` can remove the key file; else its key stays readable to the user's programs.
  public func lock(_ key: SealingKey, _ passphrase: Secret?) throws(Failure) -> Bool {
    if let passphrase {
      try write(key, passphrase)
    } else if !holds(key) {
      throw .needsPassphrase
    }
    let file = key.file.flatMap { access($0.folder, W_OK) == 0 ? $0 : nil }
    if let file, access(file.next, F_OK) == 0 {
      throw .unusable(path: file.next, detail: "a rotation of the key has not ended")
    }
    try replace(mark, Data("\(file?.path ?? "")\n".utf8))
    return file != nil
  }

  /// Removes the key file of a locked broker. Again after a process that ended before it could.
  ///
  /// - Returns: whether there was one.
  public func removeKeyFile() -> Bool {
    guard isLocked, let line = contents(mark), let path = String(data: line.dropLast(), encoding: .utf8), !path.isEmpty
    else { return false }
    let file = KeyFile(path)
    // Any other key in that place is not this file's copy.
    guard let key = try? file.load(), holds(key), unlink(file.path) == 0 else { return false }
    _ = PrivateFiles.syncFolder(file.folder)
    return true
  }

  /// Removes a key that is no longer the store's.
  public func removeOther(than key: SealingKey) {
    guard !isLocked, let found = read(), found.name != Self.name(of: key) else { return }
    unlink(path)
  }

  // MARK: Unlocking

  /// Puts the key back into its file. Takes half a second and 64 MiB.
  public func unlock(_ passphrase: Secret) throws(Failure) {
    guard let found = read() else { throw .unusable(path: path, detail: "it is missing, or damaged") }
    let text = try open(found.sealed, passphrase)
    if let line = contents(mark), let place = String(data: line.dropLast(), encoding: .utf8), !place.isEmpty {
      let file = KeyFile(place)
      let key: SealingKey
      do throws(SealingError) { key = try SealingKey(text, source: place) } catch {
        throw .unusable(path: path, detail: error.detail)
      }
      if !file.has(key, in: place) { try replace(place, text) }
    }
    guard unlink(mark) == 0, PrivateFiles.syncFolder(folder) else {
      throw .unusable(path: mark, detail: systemError(errno))
    }
  }

  // MARK: Files

  private func write(_ key: SealingKey, _ passphrase: Secret) throws(Failure) {
    let sealed: [UInt8]
    do throws(BackupFile.Failure) {
      // Exposed to be put under the passphrase.
      sealed = try BackupFile.seal(Data("\(key.exposedText)\n".utf8), with: .passphrase(passphrase))
    } catch {
      guard case .unusableSecret(let reason) = error else { throw .unusable(path: path, detail: "it cannot be sealed") }
      throw .unusablePassphrase(reason)
    }
    try replace(path, Data("\(Self.magic)\(Self.name(of: key))\n".utf8) + sealed)
    guard read()?.sealed == Data(sealed) else {
      throw .unusable(path: path, detail: "it is not what was written")
    }
  }

  private func open(_ sealed: Data, _ passphrase: Secret) throws(Failure) -> Data {
    do throws(BackupFile.Failure) {
      return try BackupFile.open(Array(sealed), with: .passphrase(passphrase))
    } catch {
      switch error {
      case .wrongPassphrase: throw .wrongPassphrase
      case .unusableSecret(let reason): throw .unusablePassphrase(reason)
      case .foreign, .newer, .wrongKey, .needsPassphrase, .needsKey, .truncated, .damaged, .tooLarge:
        throw .unusable(path: path, detail: "it is damaged")
      }
    }
  }

  /// The name of the key does not reveal it: each sealed value contains the name.
  private static func name(of key: SealingKey) -> String { hexadecimal(key.sealer.name) }

  private func read() -> (name: String, sealed: Data)? {
    guard let all = contents(path), let end = all.firstIndex(of: UInt8(ascii: "\n")),
      let line = String(data: all[..<end], encoding: .utf8), line.hasPrefix(Self.magic)
    else { return nil }
    return (String(line.dropFirst(Self.magic.count)), Data(all[(end + 1)...]))
  }

  private func contents(_ path: String) -> Data? {
    let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else { return nil }
    defer { Glibc.close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: Self.limit)
    let count = Glibc.read(descriptor, &bytes, bytes.count)
    return count > 0 && count < Self.limit ? Data(bytes[..<count]) : nil
  }

  /// Replaces the file atomically.
  private func replace(_ path: String, _ contents: Data) throws(Failure) {
    let temporary = "\(path).\(UUID().uuidString)"
    guard PrivateFiles.create(temporary, contents: contents), rename(temporary, path) == 0,
      PrivateFiles.syncFolder(PrivateFiles.folder(of: path))
    else {
      let reason = systemError(errno)
      unlink(temporary)
      throw .unusable(path: path, detail: reason)
    }
  }
}
