import FoundationEssentials
import Glibc

// The key is changed while a store is in use. The new one is on disk before the first value is sealed under it, and the
// old one exists until all values are: whenever the process ends, the store names its key.
//
// let new = try file.makeNext()     seal the store again under it, and note that, in one transaction try
// file.installNext()            after data under the old key (a log) were emptied
extension KeyFile {
  /// A new key for this file, on disk next to it, only for its owner. An existing file there is not changed.
  ///
  /// Throws only ``SealingError/unwritable(path:detail:)``; then nothing has changed.
  public func makeNext() throws(SealingError) -> SealingKey {
    let key = SealingKey.random(source: path).kept(in: self)
    guard write(next: key) else {
      let detail = systemError(errno)
      if errno != EEXIST { unlink(next) }
      throw .unwritable(path: next, detail: detail)
    }
    return key
  }

  /// Moves the key next to the file into it. The file's old content is overwritten, as far as a file system does that.
  ///
  /// Throws only ``SealingError/unwritable(path:detail:)``; then the next start installs it.
  public func installNext() throws(SealingError) {
    let old = Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    defer { if old >= 0 { Glibc.close(old) } }
    guard rename(next, path) == 0 else { throw .unwritable(path: path, detail: systemError(errno)) }
    // If this fails, the next start finds both files before or after the move, and accepts either.
    guard PrivateFiles.syncFolder(folder) else { return }
    var status = stat()
    // A second name of the file is a user's copy.
    guard old >= 0, fstat(old, &status) == 0, status.st_nlink == 0, status.st_size <= 512 else { return }
    let nothing = [UInt8](repeating: 0, count: Int(status.st_size))
    if pwrite(old, nothing, nothing.count, 0) == nothing.count { fsync(old) }
  }

  /// Removes the key beside the file. Nothing may be sealed under it.
  public func removeNext() {
    unlink(next)
    _ = PrivateFiles.syncFolder(folder)
  }

  /// Before another rotation: a key next to the file that is the store's is moved into it.
  ///
  /// Throws only ``SealingError/unwritable(path:detail:)``.
  /// - Parameter key: the store's key.
  /// - Returns: whether another key is next to the file. It may be removed once the store does not need it.
  public func finishRotation(to key: SealingKey) throws(SealingError) -> Bool {
    guard access(next, F_OK) == 0 else { return false }
    guard has(key, in: next) else { return true }
    try installNext()
    return false
  }

  /// Whether the key next to the file belongs to a rotation without effect: the store is under `key`.
  func hasAbandonedNext(besides key: SealingKey) -> Bool {
    // Never the last copy, whatever happened to the file in the interim.
    access(next, F_OK) == 0 && has(key, in: path)
  }
}
