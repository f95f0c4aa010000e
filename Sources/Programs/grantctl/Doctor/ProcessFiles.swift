@preconcurrency import Glibc

/// The files of this machine.
enum ProcessFiles {
  /// Bytes of a file of text; a longer one is refused.
  private static let longestText = 64 * 1024

  static func text(_ path: String) -> TerminalFiles.Text {
    switch read(path, limit: longestText) {
    case .failure(let reason): .unreadable(reason.words)
    case .success((let bytes, let mode)):
      .text(String(decoding: bytes, as: UTF8.self), isOpenToOthers: mode & S_IROTH != 0)
    }
  }

  static func bytes(_ path: String, limit: Int) -> TerminalFiles.Bytes {
    switch read(path, limit: limit) {
    case .failure(let reason): .unreadable(reason.words)
    case .success((let bytes, let mode)): .bytes(bytes, isOpenToOthers: mode & S_IROTH != 0)
    }
  }

  private struct Reason: Error {
    var words: String

    static var ofKernel: Reason { Reason(words: String(cString: strerror(errno))) }
  }

  private static func read(_ path: String, limit: Int) -> Result<(bytes: [UInt8], mode: mode_t), Reason> {
    // A pipe without a writer must not keep us.
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return .failure(.ofKernel) }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return .failure(.ofKernel) }
    guard status.st_mode & S_IFMT == S_IFREG else { return .failure(Reason(words: "it is not a file")) }
    guard let bytes = ProcessStreams.read(descriptor, limit: limit) else {
      return .failure(errno == EFBIG ? Reason(words: "it is longer than \(limit / 1024) KiB") : .ofKernel)
    }
    return .success((bytes, status.st_mode))
  }

  /// At once or not at all: a file of before stays whole where the new one cannot be written.
  static func replace(_ path: String, with text: String) -> String? {
    makeFolder(split(path).folder)?.words ?? save(path, bytes: Array(text.utf8), replacing: true, mode: 0o644)
  }

  /// For its owner alone. By another name until it is whole: nobody finds half of it, and what is there stays until then.
  static func save(_ path: String, bytes: [UInt8], replacing: Bool) -> String? {
    save(path, bytes: bytes, replacing: replacing, mode: 0o600)
  }

  /// Why ``save(_:bytes:replacing:)`` would fail, as a new file in the folder shows.
  static func obstacle(_ path: String) -> String? {
    guard !path.isEmpty else { return "the path is empty" }
    var status = stat()
    if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR { return TerminalFiles.folderObstacle }
    let folder = split(path).folder
    guard stat(folder, &status) == 0 else { return Reason.ofKernel.words }
    guard status.st_mode & S_IFMT == S_IFDIR else { return "\(folder) is not a folder" }
    // To root access(2) allows every folder, also one that takes no files, such as /proc.
    let temporary = Self.temporary(beside: path)
    let descriptor = create(temporary)
    guard descriptor >= 0 else { return Reason.ofKernel.words }
    close(descriptor)
    unlink(temporary)
    return nil
  }

  private static func temporary(beside path: String) -> String {
    let (folder, name) = split(path)
    return "\(folder)/.\(name).\(String(UInt64.random(in: 0 ... .max), radix: 16))"
  }

  /// Creates a file that only its owner can read; negative: it failed (`errno`).
  private static func create(_ path: String) -> Int32 {
    open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
  }

  private static func save(_ path: String, bytes: [UInt8], replacing: Bool, mode: mode_t) -> String? {
    let temporary = Self.temporary(beside: path)
    let descriptor = create(temporary)
    guard descriptor >= 0 else { return Reason.ofKernel.words }
    defer { unlink(temporary) }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { break }
      rest = rest.dropFirst(count)
    }
    let isWhole = rest.isEmpty && fchmod(descriptor, mode) == 0 && fsync(descriptor) == 0
    let reason = isWhole ? nil : Reason.ofKernel.words
    close(descriptor)
    if let reason { return reason }
    if let reason = put(temporary, at: path, replacing: replacing) { return reason }
    // The directory is synced too, for the name. Some file systems report an error for this.
    let directory = open(split(path).folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if directory >= 0 {
      fsync(directory)
      close(directory)
    }
    return nil
  }

  /// A file of another program: through its symbolic link, with its mode.
  static func rewrite(_ path: String, bytes: [UInt8], like original: String) -> String? {
    let place = realpath(path, nil)
    defer { free(place) }
    let target = place.map { String(cString: $0) } ?? path
    if let reason = makeFolder(split(target).folder) { return reason.words }
    var status = stat()
    let mode = stat(original, &status) == 0 ? status.st_mode & 0o777 : 0o600
    return save(target, bytes: bytes, replacing: true, mode: mode)
  }

  /// With the folders above it.
  private static func makeFolder(_ path: String) -> Reason? {
    if mkdir(path, 0o777) == 0 { return nil }
    let above = split(path).folder
    if errno == ENOENT, above != path {
      if let reason = makeFolder(above) { return reason }
      if mkdir(path, 0o777) == 0 { return nil }
    }
    let reason = Reason.ofKernel
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR ? nil : reason
  }

  static func split(_ path: String) -> (folder: String, name: String) {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return (".", path) }
    let name = String(path[path.utf8.index(after: slash)...])
    return (slash == path.startIndex ? "/" : String(path[..<slash]), name)
  }

  private static func put(_ temporary: String, at path: String, replacing: Bool) -> String? {
    if replacing { return rename(temporary, path) == 0 ? nil : Reason.ofKernel.words }
    if link(temporary, path) == 0 { return nil }
    // File systems of other systems know no second names.
    guard errno == EPERM || errno == ENOTSUP, access(path, F_OK) != 0 else { return Reason.ofKernel.words }
    return rename(temporary, path) == 0 ? nil : Reason.ofKernel.words
  }

  static func remove(_ path: String) -> String? {
    unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR ? nil : Reason.ofKernel.words
  }

  static func removeFolder(_ path: String) -> String? {
    rmdir(path) == 0 ? nil : Reason.ofKernel.words
  }

  /// What is in a folder, in any order; nil: it cannot be read.
  static func names(_ path: String) -> [String]? {
    guard let folder = opendir(path) else { return nil }
    defer { closedir(folder) }
    var names: [String] = []
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }
}
