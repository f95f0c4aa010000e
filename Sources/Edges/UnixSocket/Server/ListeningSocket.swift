import CLinux
import Glibc
import Listening

/// A Unix stream socket, bound, and the file it is bound to, if that is ours.
struct ListeningSocket: Sendable {
  let descriptor: Int32
  private let file: SocketFile?

  /// Takes over a socket that the service manager bound; its file stays the manager's.
  static func inherited(_ descriptor: Int32) throws(SocketServerError) -> ListeningSocket {
    guard clinux_is_unix_listener(descriptor) == 1 else { throw .notAListener(descriptor: descriptor) }
    return ListeningSocket(descriptor: descriptor, file: nil)
  }

  /// The socket that the earlier process left with its keeper, if it has this path; otherwise it is bound here with exactly
  /// `mode`, and its folder is made with `folderMode` if it is missing.
  static func bound(
    at path: String, mode: UInt32, folderMode: UInt32, keeper: SocketKeeper? = nil
  ) throws(SocketServerError) -> ListeningSocket {
    if let keeper, let earlier = keeper.earlier(SocketKeeper.only) {
      if let socket = kept(earlier, at: path, mode: mode) { return socket }
      keeper.remove(SocketKeeper.only)
      remove(kept: earlier, unlessAt: path)
    }
    do throws(SocketFile.Failure) {
      let (descriptor, file) = try SocketFile.bind(path, mode: mode, folderMode: folderMode)
      return ListeningSocket(descriptor: descriptor, file: file)
    } catch {
      throw .file(path: path, error)
    }
  }

  /// Leaves a copy with the keeper. The socket must be ours and listen; then its file stays.
  func left(with keeper: SocketKeeper?) -> ListeningSocket {
    guard file != nil, let keeper, keeper.keep(descriptor, SocketKeeper.only) else { return self }
    return ListeningSocket(descriptor: descriptor, file: nil)
  }

  /// Removes the file, if it is ours.
  func unlinkFile() { file?.remove() }

  /// Takes over the socket that an earlier process bound at `path`, and gives its file `mode`; its file stays. Nil if
  /// it has another path, or its file was removed.
  private static func kept(_ descriptor: Int32, at path: String, mode: UInt32) -> ListeningSocket? {
    guard clinux_is_unix_listener(descriptor) == 1, SocketFile.path(of: descriptor) == path,
      SocketFile(at: path) != nil, chmod(path, mode) == 0
    else { return nil }
    return ListeningSocket(descriptor: descriptor, file: nil)
  }

  /// Closes the socket of an earlier process, and removes its file, which no other program would. `path` may have
  /// another one by then.
  private static func remove(kept descriptor: Int32, unlessAt path: String) {
    let old = SocketFile.path(of: descriptor)
    close(descriptor)
    if let old, old != path { SocketFile(at: old)?.remove() }
  }
}
