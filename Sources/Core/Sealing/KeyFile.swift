import FoundationEssentials
import Glibc

/// A file with a key: owned by this process's user, unreadable for all others. During a rotation the next key is in a
/// file next to it.
public struct KeyFile: Sendable, Equatable {
  public let path: String

  public init(_ path: String) { self.path = path }

  /// The location of the next key until it replaces the file.
  public var next: String { path + ".next" }

  /// That the file is in.
  var folder: String { PrivateFiles.folder(of: path) }

  /// The key in the file, which is made at the first start: completely or not at all, on disk, and one key for
  /// concurrent starts. With the rest of an interrupted rotation.
  ///
  /// - Parameter sealed: data that are already sealed under the file's key, such as `the database in /var/lib/grantd`;
  ///   nil: none. Called if the file is missing, and then no key is made: a new one would not open them.
  public func loadOrCreate(unlessSealed sealed: () -> String?) throws(SealingError) -> SealingKey {
    if let key = try load() { return key }
    if let sealed = sealed() {
      let left = access(next, F_OK) == 0 ? "; an interrupted rotation left \(next)" : ""
      throw .unusableKey(
        source: path, detail: "it is missing, and \(sealed) is sealed under the key that it had\(left)")
    }
    try create(.random(source: path))
    guard let key = try load() else {
      throw .unusableKey(source: path, detail: "it was removed while it was being made")
    }
    return key
  }

  /// Nil if the file does not exist. With the rest of an interrupted rotation.
  public func load() throws(SealingError) -> SealingKey? {
    guard let key = try Self.read(path) else { return nil }
    // An unreadable file was never complete, or belongs to another program: no store was sealed under it.
    return key.kept(in: self, next: (try? Self.read(next))?.key)
  }

  /// Makes sure that the next start finds the key: in its file, or next to it if the file has another one. If the
  /// folder was emptied, or replaced by an older copy, the key exists only in memory.
  ///
  /// A key that is kept elsewhere is not written next to its store, nor if it is missing: its disk may return.
  /// - Parameters:
  ///   - folder: the store's folder.
  ///   - restores: whether a missing file in the folder is written again; otherwise it was moved on purpose.
  /// - Returns: the file with the key; nil if it is kept elsewhere.
  @discardableResult
  public func keep(_ key: SealingKey, inside folder: String, restores: Bool) throws(SealingError) -> String? {
    if has(key, in: path) { return path }
    if has(key, in: next) { return next }
    if access(path, F_OK) != 0 {
      guard Self.steps(of: self.folder) == Self.steps(of: folder), restores else { return nil }
      try create(key)
      if has(key, in: path) { return path }
    }
    // No key is removed.
    if access(next, F_OK) == 0 { rename(next, "\(next).aside") }
    guard write(next: key), has(key, in: next) else {
      throw .unwritable(path: next, detail: "the key of the database cannot be kept there: \(systemError(errno))")
    }
    return next
  }

  /// Whether the key is in its file, or next to it during a rotation.
  public func has(_ key: SealingKey) -> Bool { has(key, in: path) || has(key, in: next) }

  // MARK: Files

  func has(_ key: SealingKey, in path: String) -> Bool { (try? Self.read(path))?.key == key.key }

  /// Nil where there is no such file.
  static func read(_ path: String) throws(SealingError) -> SealingKey? {
    let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    if descriptor < 0, errno == ENOENT { return nil }
    guard descriptor >= 0 else { throw .unusableKey(source: path, detail: systemError(errno)) }
    defer { Glibc.close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .unusableKey(source: path, detail: systemError(errno)) }
    if let objection = objection(to: status) { throw .unusableKey(source: path, detail: objection) }
    var contents = [UInt8](repeating: 0, count: 512)
    let count = Glibc.read(descriptor, &contents, contents.count)
    guard count >= 0 else { throw .unusableKey(source: path, detail: systemError(errno)) }
    return try SealingKey(Data(contents[..<count]), source: path)
  }

  private static func objection(to status: stat) -> String? {
    if status.st_mode & S_IFMT != S_IFREG { return "it is not a regular file" }
    if status.st_uid != geteuid() { return "it belongs to user \(status.st_uid), not to \(geteuid())" }
    if status.st_mode & 0o077 != 0 {
      let mode = String(status.st_mode & 0o777, radix: 8)
      return "others may use it (mode \(mode)): chmod 600, if no other user has read it"
    }
    return nil
  }

  /// Whole or not at all, on disk, and never over another: of two that start at once, one wins and both use its key.
  private func create(_ key: SealingKey) throws(SealingError) {
    try PrivateFiles.prepareFolder(folder)
    let temporary = "\(path).new.\(UUID().uuidString)"
    let written = PrivateFiles.create(temporary, contents: Self.contents(of: key))
    defer { unlink(temporary) }
    guard written else { throw .unusableKey(source: path, detail: "it cannot be made: \(systemError(errno))") }
    guard link(temporary, path) == 0 || errno == EEXIST, PrivateFiles.syncFolder(folder) else {
      throw .unusableKey(source: path, detail: "it cannot be made: \(systemError(errno))")
    }
  }

  func write(next key: SealingKey) -> Bool {
    PrivateFiles.create(next, contents: Self.contents(of: key)) && PrivateFiles.syncFolder(folder)
  }

  /// The names that lead to a folder, which may be given with a slash at its end.
  private static func steps(of folder: String) -> [String] {
    folder.split(separator: "/").reduce(into: folder.hasPrefix("/") ? ["/"] : []) { steps, name in
      switch name {
      case ".": break
      case ".." where steps.last.map { $0 != "/" && $0 != ".." } ?? false: steps.removeLast()
      default: steps.append(String(name))
      }
    }
  }

  /// Exposed to be written.
  private static func contents(of key: SealingKey) -> Data { Data("\(key.exposedText)\n".utf8) }
}
