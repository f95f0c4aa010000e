import Glibc

/// Secrets that the service manager put aside for this service (`LoadCredential=`, `SetCredential=`).
///
/// Neither owner nor mode of the files is checked: some versions of systemd give them to the service user, others
/// keep them root's and grant access by an ACL. The directory itself is the manager's.
public struct Credentials: Sendable {
  /// The manager's own limit for one credential is 1 MiB; keys and client secrets are far smaller.
  public static let sizeLimit = 64 * 1024

  /// Why there is no such credential.
  public enum Failure: Error, Equatable, CustomStringConvertible {
    case invalidName(String)
    /// The unit loads no credentials at all, or none of this name.
    case absent(String)
    case tooLarge(String, limit: Int)
    /// The file exists and cannot be read (errno).
    case unreadable(String, Int32)

    public var description: String {
      switch self {
      case .invalidName(let name):
        "'\(LogText.escaped(name, limit: 64))' is not a credential name: use 1 to 255 characters without '/'"
      case .absent(let name):
        "no credential '\(name)': add LoadCredential=\(name):/path/to/file to the unit"
      case .tooLarge(let name, let limit):
        "credential '\(name)' is larger than \(limit) bytes"
      case .unreadable(let name, let code):
        "credential '\(name)' cannot be read: \(String(cString: strerror(code)))"
      }
    }
  }

  private let directory: String?

  /// - Parameter directory: the value of `CREDENTIALS_DIRECTORY`; nil or empty where the unit loads none.
  public init(directory: String?) {
    self.directory = directory.flatMap { $0.isEmpty ? nil : $0 }
  }

  /// The bytes of one credential, unchanged: a trailing newline stays.
  public func read(_ name: String, limit: Int = sizeLimit) throws(Failure) -> [UInt8] {
    guard (1...255).contains(name.utf8.count), name != ".", name != "..",
      !name.utf8.contains(where: { $0 == UInt8(ascii: "/") || $0 < 0x20 })
    else { throw .invalidName(name) }
    guard let directory else { throw .absent(name) }
    let descriptor = open("\(directory)/\(name)", O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw errno == ENOENT ? .absent(name) : .unreadable(name, errno) }
    defer { close(descriptor) }
    return try Self.contents(of: descriptor, name: name, limit: limit)
  }

  private static func contents(of descriptor: Int32, name: String, limit: Int) throws(Failure) -> [UInt8] {
    var contents: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while contents.count <= limit {
      let count = Glibc.read(descriptor, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw .unreadable(name, errno) }
      if count == 0 { return contents }
      contents.append(contentsOf: chunk[..<count])
    }
    throw .tooLarge(name, limit: limit)
  }
}
