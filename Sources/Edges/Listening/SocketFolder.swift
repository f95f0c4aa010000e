import Glibc

/// The folder of a Unix socket. A user who may write there can replace the socket, and gets the requests and answers them.
enum SocketFolder {
  /// Root or this user must own it, and no other user may write there. In a folder with the sticky bit a user removes only
  /// own files.
  static func check(_ folder: String) throws(SocketFile.Failure) {
    var status = stat()
    guard stat(folder, &status) == 0 else { throw .failed(path: folder, call: "stat", code: errno) }
    guard status.st_uid == geteuid() || status.st_uid == 0 else {
      throw .unsafeFolder(folder, detail: "it belongs to user \(status.st_uid)")
    }
    guard status.st_mode & 0o022 == 0 || status.st_mode & S_ISVTX != 0 else {
      throw .unsafeFolder(
        folder, detail: "others may write there (mode \(String(status.st_mode & 0o7777, radix: 8)))")
    }
  }
}
