/// Modes of a folder of a Unix socket, and whether only root and its owner can replace the socket. The tests of both servers
/// run through all of them.
public enum SocketFolders {
  public static let modes: [(UInt32, Bool)] = [
    (0o700, true), (0o711, true), (0o755, true), (0o1777, true), (0o1770, true),
    (0o777, false), (0o775, false), (0o770, false), (0o757, false), (0o722, false), (0o702, false),
  ]

  /// Why the folder is not safe.
  public static func detail(_ mode: UInt32) -> String {
    "others may write there (mode \(String(mode, radix: 8)))"
  }
}
