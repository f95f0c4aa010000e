public import Broker
import Crypto
import Foundation
import Glibc

extension SealingKey {
  /// The key in `file`, which is made at the first start.
  ///
  /// The file must belong to this process's user and be closed to all others. It is not made where `stateFolder` has a
  /// database already: a new key would not open it.
  public static func loadOrCreate(file: String, stateFolder: String) throws(StoreError) -> SealingKey {
    if let key = try load(file: file) { return key }
    guard !StateFolder(path: stateFolder).hasDatabase else {
      let next = access(nextFile(of: file), F_OK) == 0 ? "; an interrupted rotation left \(nextFile(of: file))" : ""
      throw .unusableKey(
        source: file,
        detail: "it is missing, and the database in \(stateFolder) is sealed under the key that it had\(next)")
    }
    try create(file: file, SymmetricKey(size: .bits256))
    guard let key = try load(file: file) else {
      throw .unusableKey(source: file, detail: "it was removed while it was being made")
    }
    return key
  }

  /// Sees that the key is where the next start looks for it: in its file, or beside that where the file has another one.
  /// What emptied the folder, or put an older copy of it there, has taken the key that memory alone has now.
  ///
  /// A key that is kept elsewhere is not put beside the database that it seals, and not where it is missing: that may be
  /// a disk that comes back.
  /// - Parameter restores: whether a missing file in the folder is written again; else somebody took it elsewhere.
  /// - Returns: the file that has it; nil where it is kept elsewhere, or was given from outside.
  @discardableResult
  func keepOnDisk(inside folder: String, restores: Bool) throws(StoreError) -> String? {
    guard let file else { return nil }
    let next = Self.nextFile(of: file)
    if isAlone(in: file) { return file }
    if isAlone(in: next) { return next }
    let isInside = Self.standard((file as NSString).deletingLastPathComponent) == Self.standard(folder)
    if access(file, F_OK) != 0 {
      guard isInside, restores else { return nil }
      try Self.create(file: file, key)
      if isAlone(in: file) { return file }
    }
    // Nobody's key is removed.
    if access(next, F_OK) == 0 { rename(next, "\(next).aside") }
    guard Self.writeFile(next, contents: Self.text(of: key)), syncFolder(Self.folder(of: file)), isAlone(in: next)
    else {
      throw .unwritable(path: next, detail: "the key of the database cannot be kept there: \(systemError(errno))")
    }
    return next
  }

  private func isAlone(in file: String) -> Bool { (try? Self.loadAlone(file: file))?.key == key }

  /// A folder may be given with a slash at its end.
  private static func standard(_ path: String) -> String { (path as NSString).standardizingPath }

  /// A key that the store may still be under, from a file that may be there or not; nil also where it cannot be used.
  public static func loadPrevious(file: String) -> SealingKey? { try? load(file: file) }

  /// Nil where there is no such file. With what an interrupted rotation left beside it.
  private static func load(file: String) throws(StoreError) -> SealingKey? {
    guard let key = try loadAlone(file: file) else { return nil }
    // What cannot be read was never whole, or is not this program's: the database was not sealed under it.
    return key.kept(in: file, next: (try? loadAlone(file: nextFile(of: file)))?.key)
  }

  static func nextFile(of file: String) -> String { file + ".next" }

  static func loadAlone(file: String) throws(StoreError) -> SealingKey? {
    let descriptor = Glibc.open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    if descriptor < 0, errno == ENOENT { return nil }
    guard descriptor >= 0 else { throw .unusableKey(source: file, detail: systemError(errno)) }
    defer { Glibc.close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .unusableKey(source: file, detail: systemError(errno)) }
    if let objection = objection(to: status) { throw .unusableKey(source: file, detail: objection) }
    var contents = [UInt8](repeating: 0, count: 512)
    let count = Glibc.read(descriptor, &contents, contents.count)
    guard count >= 0 else { throw .unusableKey(source: file, detail: systemError(errno)) }
    return try SealingKey(Data(contents[..<count]), source: file)
  }

  private static func objection(to status: stat) -> String? {
    if status.st_mode & S_IFMT != S_IFREG { return "it is no regular file" }
    if status.st_uid != geteuid() { return "it belongs to user \(status.st_uid), not to \(geteuid())" }
    if status.st_mode & 0o077 != 0 {
      return "others may use it (mode \(String(status.st_mode & 0o777, radix: 8))): chmod 600, if nobody has read it"
    }
    return nil
  }

  /// Whole or not at all, on disk, and never over another: of two that start at once, one wins and both use its key.
  private static func create(file: String, _ key: SymmetricKey) throws(StoreError) {
    _ = try StateFolder.prepare(folder(of: file))
    let temporary = "\(file).new.\(UUID().uuidString)"
    let written = writeFile(temporary, contents: text(of: key))
    defer { unlink(temporary) }
    guard written else { throw .unusableKey(source: file, detail: "it cannot be made: \(systemError(errno))") }
    guard link(temporary, file) == 0 || errno == EEXIST, syncFolder(folder(of: file)) else {
      throw .unusableKey(source: file, detail: "it cannot be made: \(systemError(errno))")
    }
  }

  static func folder(of file: String) -> String {
    let folder = (file as NSString).deletingLastPathComponent
    return folder.isEmpty ? "." : folder
  }

  static func text(of key: SymmetricKey) -> Data {
    key.withUnsafeBytes { Data($0) }.base64EncodedData() + [UInt8(ascii: "\n")]
  }

  static func writeFile(_ path: String, contents: Data) -> Bool {
    let descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard descriptor >= 0 else { return false }
    defer { Glibc.close(descriptor) }
    let count = contents.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
    return count == contents.count && fchmod(descriptor, 0o600) == 0 && fsync(descriptor) == 0
  }
}
