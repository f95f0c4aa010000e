public import Broker
import BrokerAPI
import Dispatch
import Glibc
import Synchronization

/// Writes token files atomically: a temporary file, fsync, rename, so that no reader sees half a file.
///
/// Folders and files are opened without following links: a link instead of either is refused, since its maker would
/// choose the token's destination.
public final class FileDisk: TokenFileDisk {
  /// Below it folders are made where they are missing, and files may be for other users.
  private let own: String
  /// One after the other for each path: two may change values of the same file.
  private let queues = Mutex<[String: DispatchQueue]>([:])
  private let watch = FileWatch()

  /// The primary group and all groups of a user; nil: the user database cannot be read.
  public typealias Membership = @Sendable (UInt32) -> (gid: UInt32, groups: [UInt32])?

  private struct Names {
    /// The latest answer for each user.
    var known: [UInt32: (gid: UInt32, groups: [UInt32])] = [:]
    /// The users that are being looked up.
    var pending: Set<UInt32> = []
  }

  private let membership: Membership?
  /// Lookups of different users wait for different threads: a directory service may answer for some of them only.
  private let lookups = (0..<lookupThreads).map { DispatchQueue(label: "token-file-names-\($0)") }
  private static let lookupThreads = 8
  private let names = Mutex(Names())
  /// How long a file waits for the user database; then the latest answer is used.
  private static let patience = DispatchTimeInterval.seconds(2)

  /// - Parameters:
  ///   - own: the broker's own folder for token files.
  ///   - membership: asks the user database; nil: the groups of the configuration are used.
  public init(own: String, membership: Membership? = nil) {
    self.own = own
    self.membership = membership
  }

  public func current(_ reader: TokenFile.Reader) async -> TokenFile.Reader {
    guard case .user(let uid, let gid, let groups) = reader, let membership else { return reader }
    // While a lookup hangs, no other one is begun for the user, and no file waits for it.
    if names.withLock({ $0.pending.insert(uid).inserted }) {
      _ = await withCheckedContinuation { (waiter: CheckedContinuation<Void?, Never>) in
        let answer = FirstAnswer(waiter)
        lookups[Int(uid) % Self.lookupThreads].async { [self] in
          let found = membership(uid)
          names.withLock { names in
            names.pending.remove(uid)
            if let found { names.known[uid] = found }
          }
          answer.give(())
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.patience) { answer.give(nil) }
      }
    }
    let latest = names.withLock { $0.known[uid] } ?? (gid: gid, groups: groups)
    return .user(uid, gid: latest.gid, groups: latest.groups)
  }

  /// Whether no user is being looked up, for tests.
  var isIdle: Bool { names.withLock { $0.pending.isEmpty } }

  public var changes: AsyncStream<[String]> { watch.changes }

  public func write(_ content: [UInt8], to file: TokenFile) async -> Result<Bool, TokenFileFailure> {
    await onDisk(file.place.path) { [own, watch] in
      Result { () throws(TokenFileFailure) in
        let folder = try Folder(of: file.place.path, own: own)
        // Before the file is compared, so that no change after it is missed.
        watch.add(file.place, in: Folder.split(file.place.path).folder)
        guard let member = file.place.member else { return try folder.replace(with: content, file) }
        return try folder.merge(content, into: member, file)
      }
    }
  }

  public func remove(_ place: TokenFile.Place) async -> TokenFileFailure? {
    await onDisk(place.path) { [own, watch] in
      watch.remove(place)
      do throws(TokenFileFailure) {
        guard let folder = try? Folder(of: place.path, own: own, isMade: false) else { return nil }
        if let member = place.member { try folder.remove(member) } else { try folder.remove() }
        return nil
      } catch {
        return error
      }
    }
  }

  /// On a thread that waits only for this disk.
  private func onDisk<Output: Sendable>(_ path: String, _ work: @escaping @Sendable () -> Output) async -> Output {
    let queue = queues.withLock { queues in
      if let queue = queues[path] { return queue }
      let queue = DispatchQueue(label: "token-file")
      queues[path] = queue
      return queue
    }
    return await withCheckedContinuation { waiter in queue.async { waiter.resume(returning: work()) } }
  }
}

/// A continuation that the first of two answers resumes.
private final class FirstAnswer<Value: Sendable>: Sendable {
  private let waiter: Mutex<CheckedContinuation<Value?, Never>?>

  init(_ waiter: CheckedContinuation<Value?, Never>) { self.waiter = Mutex(waiter) }

  func give(_ value: Value?) { waiter.withLock { $0.take() }?.resume(returning: value) }
}

/// The folder of one file, open.
private final class Folder {
  private let descriptor: Int32
  private let path: String
  private let name: String
  /// The path of the temporary file. One for each file: the rest of a crash is replaced or removed with the file. In a
  /// folder below the broker's own it is in that one, so that a watcher of the folder sees only complete files.
  private let aside: (folder: Int32, name: String)
  /// For a file with a merged value.
  private static let longest = 1 << 20

  init(of path: String, own: String, isMade: Bool = true) throws(TokenFileFailure) {
    self.path = path
    let (folder, name) = Self.split(path)
    self.name = name
    let isOwn = folder == own || folder.hasPrefix(own + "/")
    if isOwn, isMade { try Self.make(folder, below: own) }
    let descriptor = try Self.opened(folder)
    self.descriptor = descriptor
    if isOwn, folder != own {
      let parts = path.dropFirst(own.count + 1).replacing("/", with: "%")
      do throws(TokenFileFailure) {
        aside = (try Self.opened(own), ".\(parts).grantd-new")
      } catch {
        close(descriptor)
        throw error
      }
    } else {
      aside = (descriptor, ".\(name).grantd-new")
    }
  }

  deinit {
    if aside.folder != descriptor { close(aside.folder) }
    close(descriptor)
  }

  private static func opened(_ folder: String) throws(TokenFileFailure) -> Int32 {
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard descriptor >= 0 else {
      let number = errno
      var status = stat()
      if lstat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFLNK {
        throw TokenFileFailure("\(folder) is a link", hint: "Name the folder that it leads to in `path`.")
      }
      throw TokenFileFailure(
        "the folder \(folder) cannot be opened: \(words(number))", hint: "Make the folder, or change `path`.")
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IWOTH == 0 else {
      close(descriptor)
      throw TokenFileFailure(
        "every user can write to the folder \(folder)", hint: "Choose a folder that only its owner can write to.")
    }
    return descriptor
  }

  private static func make(_ folder: String, below own: String) throws(TokenFileFailure) {
    var path = own
    var names = folder.dropFirst(own.count).split(separator: "/")[...]
    while true {
      // Readable for all users: the files in it are not.
      if mkdir(path, 0o755) == 0 { chmod(path, 0o755) }
      if errno != EEXIST, access(path, F_OK) != 0 {
        throw TokenFileFailure(
          "the folder \(path) cannot be made: \(words(errno))", hint: "Have a look at the folder above it.")
      }
      guard let next = names.popFirst() else { return }
      path += "/" + next
    }
  }

  static func split(_ path: String) -> (folder: String, name: String) {
    let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.startIndex
    return (slash == path.startIndex ? "/" : String(path[..<slash]), String(path[path.utf8.index(after: slash)...]))
  }

  // MARK: A file of the broker's

  /// False: it already exists with these permissions.
  func replace(with content: [UInt8], _ file: TokenFile) throws(TokenFileFailure) -> Bool {
    let list = AccessList(of: file)
    if let old = try read(), old.bytes == content, list.isOf(old.descriptor) { return false }
    try put(content) { descriptor throws(TokenFileFailure) in try list.give(to: descriptor, path) }
    return true
  }

  func remove() throws(TokenFileFailure) {
    unlinkat(aside.folder, aside.name, 0)
    if unlinkat(descriptor, name, 0) != 0, errno != ENOENT {
      throw TokenFileFailure(
        "\(path) cannot be removed: \(Self.words(errno))", hint: "Remove it yourself: it has a token.")
    }
    fsync(descriptor)
  }

  /// Replaces the file atomically: write a temporary file, fsync, rename.
  private func put(
    _ content: [UInt8], prepare: (Int32) throws(TokenFileFailure) -> Void
  ) throws(TokenFileFailure) {
    unlinkat(aside.folder, aside.name, 0)
    let new = openat(aside.folder, aside.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard new >= 0 else { throw unwritable() }
    var isOpen = true
    defer { if isOpen { close(new) } }
    do throws(TokenFileFailure) {
      // Before there is a token in it.
      try prepare(new)
      var rest = content[...]
      while !rest.isEmpty {
        let count = rest.withUnsafeBytes { Glibc.write(new, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { throw unwritable() }
        rest = rest.dropFirst(count)
      }
      guard fsync(new) == 0 else { throw unwritable() }
      // Before the rename: a watcher of the folder gets one event for the file.
      isOpen = false
      guard close(new) == 0, renameat(aside.folder, aside.name, descriptor, name) == 0 else { throw unwritable() }
    } catch {
      unlinkat(aside.folder, aside.name, 0)
      throw error
    }
    // Not every file system can sync a folder.
    fsync(descriptor)
  }

  private func unwritable() -> TokenFileFailure {
    let hint =
      switch errno {
      case ENOSPC, EDQUOT: "Make room there."
      case EROFS, EACCES, EPERM: "Let the broker's user write to the folder, or change `path`."
      default: "Have a look at the disk of that folder."
      }
    return TokenFileFailure("\(path) cannot be written: \(Self.words(errno))", hint: hint)
  }

  private final class Old {
    let descriptor: Int32
    let bytes: [UInt8]
    let status: stat

    init(_ descriptor: Int32, _ bytes: [UInt8], _ status: stat) {
      self.descriptor = descriptor
      self.bytes = bytes
      self.status = status
    }

    deinit { close(descriptor) }
  }

  /// The current content; nil: none.
  private func read() throws(TokenFileFailure) -> Old? {
    let file = openat(descriptor, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
    guard file >= 0 else {
      switch errno {
      case ENOENT: return nil
      case ELOOP: throw TokenFileFailure("\(path) is a link", hint: "Name the file that it leads to in `path`.")
      default:
        throw TokenFileFailure(
          "\(path) cannot be read: \(Self.words(errno))", hint: "It must be a file of the broker's user.")
      }
    }
    var status = stat()
    guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      close(file)
      throw TokenFileFailure("\(path) exists, and is not a file", hint: "Remove it, or change `path`.")
    }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    while true {
      let count = Glibc.read(file, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      bytes += buffer[..<count]
      guard bytes.count <= Self.longest else {
        close(file)
        throw TokenFileFailure("\(path) has more than 1 MiB", hint: "A token is put into smaller files only.")
      }
    }
    return Old(file, bytes, status)
  }

  // MARK: A value in a file of another program

  func merge(_ content: [UInt8], into member: TokenFile.Member, _ file: TokenFile) throws(TokenFileFailure) -> Bool {
    try change { bytes throws(TokenFileFailure) in
      switch member {
      case .json(let names): try MergedJSON.set(content, at: names, in: bytes, path)
      case .ini(let section, let key): try MergedINI.set(content, key, section, in: bytes, path)
      }
    }
  }

  func remove(_ member: TokenFile.Member) throws(TokenFileFailure) {
    unlinkat(aside.folder, aside.name, 0)
    guard try read() != nil else { return }
    _ = try change { bytes in
      switch member {
      case .json(let names): MergedJSON.removed(names, from: bytes)
      case .ini(let section, let key): MergedINI.removed(key, section, from: bytes)
      }
    }
  }

  /// Other programs write the file too: their concurrent changes are kept.
  private func change(
    _ edit: ([UInt8]) throws(TokenFileFailure) -> [UInt8]
  ) throws(TokenFileFailure) -> Bool {
    for _ in 0..<Self.tries {
      guard let old = try read() else {
        throw TokenFileFailure(
          "\(path) is not there", hint: "Have its program write it first: the broker adds a token to it.")
      }
      let new = try edit(old.bytes)
      guard new != old.bytes else { return false }
      guard old.status.st_uid == geteuid() else {
        throw TokenFileFailure("\(path) is another user's", hint: "The broker changes files of its own user only.")
      }
      var now = stat()
      guard fstatat(descriptor, name, &now, AT_SYMLINK_NOFOLLOW) == 0, Self.isSame(now, old.status) else { continue }
      try put(new) { descriptor throws(TokenFileFailure) in
        guard fchmod(descriptor, old.status.st_mode & 0o777) == 0 else { throw unwritable() }
      }
      return true
    }
    throw TokenFileFailure("another program changes \(path) all the time", hint: "It is tried again.")
  }

  private static let tries = 5

  private static func isSame(_ one: stat, _ other: stat) -> Bool {
    one.st_ino == other.st_ino && one.st_size == other.st_size && one.st_mtim.tv_sec == other.st_mtim.tv_sec
      && one.st_mtim.tv_nsec == other.st_mtim.tv_nsec
  }

  private static func words(_ number: Int32) -> String { String(cString: strerror(number)) }
}
