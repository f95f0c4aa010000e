import FoundationEssentials
import Glibc

// The key is changed while a store serves. The new one is on disk before anything is sealed under it, and the old one
// is there until everything is: whatever ends the process, the store says which of the two it is under.
//
//     let new = try file.makeNext()     seal the store anew under it, and note that, in one transaction
//     try file.installNext()            after what may hold values under the old key (a log) was emptied
extension KeyFile {
  /// A new key for this file, which is on disk beside it, for its owner alone. What was there beside it is not touched.
  ///
  /// Throws ``SealingError/unwritable(path:detail:)`` alone; then nothing has changed.
  public func makeNext() throws(SealingError) -> SealingKey {
    let key = SealingKey.random(source: path).kept(in: self)
    guard write(next: key) else {
      let detail = systemError(errno)
      if errno != EEXIST { unlink(next) }
      throw .unwritable(path: next, detail: detail)
    }
    return key
  }

  /// Gives the key beside the file its place. What the file had is overwritten, as far as a file system does that.
  ///
  /// Throws ``SealingError/unwritable(path:detail:)`` alone; then the next start installs it.
  public func installNext() throws(SealingError) {
    let old = Glibc.open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW)
    defer { if old >= 0 { Glibc.close(old) } }
    guard rename(next, path) == 0 else { throw .unwritable(path: path, detail: systemError(errno)) }
    // Where this fails, the next start finds the two as they were or as they are: it takes either.
    guard PrivateFiles.syncFolder(folder) else { return }
    var status = stat()
    // A second name of the file is somebody's copy.
    guard old >= 0, fstat(old, &status) == 0, status.st_nlink == 0, status.st_size <= 512 else { return }
    let nothing = [UInt8](repeating: 0, count: Int(status.st_size))
    if pwrite(old, nothing, nothing.count, 0) == nothing.count { fsync(old) }
  }

  /// Removes the key beside the file. Nothing may be sealed under it.
  public func removeNext() {
    unlink(next)
    _ = PrivateFiles.syncFolder(folder)
  }

  /// Before another rotation: a key beside the file that is the store's is put into it.
  ///
  /// Throws ``SealingError/unwritable(path:detail:)`` alone.
  /// - Parameter key: what the store is under.
  /// - Returns: whether another key is beside the file. It may be removed once the store is seen not to need it.
  public func finishRotation(to key: SealingKey) throws(SealingError) -> Bool {
    guard access(next, F_OK) == 0 else { return false }
    guard has(key, in: next) else { return true }
    try installNext()
    return false
  }

  /// Whether what is beside the file belongs to a rotation that never came to anything: the store is under `key`.
  func hasAbandonedNext(besides key: SealingKey) -> Bool {
    // Never the last copy, whatever happened to the file meanwhile.
    access(next, F_OK) == 0 && has(key, in: path)
  }
}
