import Foundation
@preconcurrency import Glibc

/// The files of this machine.
enum ProcessFiles {
  /// Bytes of a file of text; a longer one is refused.
  private static let longestText = 64 * 1024

  static func text(_ path: String) -> Terminal.FileText {
    switch read(path, limit: longestText) {
    case .failure(let reason): .unreadable(reason.words)
    case .success((let bytes, let mode)):
      .text(String(decoding: bytes, as: UTF8.self), isOpenToOthers: mode & S_IROTH != 0)
    }
  }

  static func bytes(_ path: String, limit: Int) -> Terminal.FileBytes {
    switch read(path, limit: limit) {
    case .failure(let reason): .unreadable(reason.words)
    case .success((let bytes, _)): .bytes(bytes)
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
    guard status.st_mode & S_IFMT == S_IFREG else { return .failure(Reason(words: "it is no file")) }
    guard let bytes = ProcessStreams.read(descriptor, limit: limit) else {
      return .failure(errno == EFBIG ? Reason(words: "it is longer than \(limit / 1024) KiB") : .ofKernel)
    }
    return .success((bytes, status.st_mode))
  }

  /// At once or not at all: a file of before stays whole where the new one cannot be written.
  static func replace(_ path: String, with text: String) -> String? {
    let folder = (path as NSString).deletingLastPathComponent
    do {
      try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
      try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
    } catch {
      return reason(error)
    }
    return chmod(path, 0o644) == 0 ? nil : Reason.ofKernel.words
  }

  static func remove(_ path: String) -> String? {
    unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR ? nil : Reason.ofKernel.words
  }

  /// In the kernel's words, where it said no.
  private static func reason(_ error: any Error) -> String {
    let error = error as NSError
    let cause = error.userInfo[NSUnderlyingErrorKey] as? NSError ?? error
    guard cause.domain == NSPOSIXErrorDomain, let number = Int32(exactly: cause.code) else {
      return "it cannot be written"
    }
    return String(cString: strerror(number))
  }
}
