import FoundationEssentials
import Glibc

/// A file, read with its owner and mode as they were when it was opened.
struct ConfigurationFile {
  /// A larger file is not a configuration.
  static let sizeLimit = 1 << 20
  static let secretLimit = 64 << 10

  var bytes: [UInt8]
  var mode: UInt32
  var group: UInt32

  enum Failure: Error, Equatable {
    case absent
    case unreadable(String)
    case noFile
    case tooLarge(limit: Int)

    var text: String {
      switch self {
      case .absent: "there is no such file"
      case .unreadable(let reason): "cannot be read: \(reason)"
      case .noFile: "is not a regular file"
      case .tooLarge(let limit): "is larger than \(limit >> 10) KiB"
      }
    }
  }

  /// Whether it exists, or cannot be examined: a dangling link and an unreadable folder are errors, not absence.
  static func exists(_ path: String) -> Bool {
    var status = stat()
    return lstat(path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR)
  }

  static func read(_ path: String, limit: Int) throws(Failure) -> ConfigurationFile {
    // Without O_NONBLOCK a FIFO would hold the broker up for ever.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else {
      throw errno == ENOENT ? .absent : .unreadable(String(cString: strerror(errno)))
    }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { throw .unreadable(String(cString: strerror(errno))) }
    guard status.st_mode & S_IFMT == S_IFREG else { throw .noFile }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 16 << 10)
    while bytes.count <= limit {
      let count = Glibc.read(descriptor, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw .unreadable(String(cString: strerror(errno))) }
      if count == 0 {
        return ConfigurationFile(bytes: bytes, mode: status.st_mode & 0o777, group: status.st_gid)
      }
      bytes += chunk[..<count]
    }
    throw .tooLarge(limit: limit)
  }

  /// The text; nil if it is not UTF-8 or has a NUL, where C would end it.
  var text: String? {
    bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
  }
}

extension Settings.Sources {
  /// The groups of this process: files may be readable for them.
  public static func ownGroups() -> Set<UInt32> {
    var groups = [gid_t](repeating: 0, count: 65536)
    let count = max(getgroups(Int32(groups.count), &groups), 0)
    return Set(groups.prefix(Int(count))).union([getegid()])
  }
}
