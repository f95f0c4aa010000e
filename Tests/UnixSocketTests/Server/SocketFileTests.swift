import Foundation
import Glibc
import Listening
import TestSupport
import Testing

/// The file of a socket of both servers.
@Suite struct SocketFileTests {
  /// The path before the socket is bound.
  enum Before: CaseIterable {
    case nothing, stale, served, datagram, file

    var failure: SocketFile.Failure? {
      switch self {
      case .nothing, .stale: nil
      case .served, .datagram: .inUse
      case .file: .notASocket
      }
    }

    /// - Returns: a descriptor that another program would have.
    func prepare(_ path: String) throws -> Int32? {
      switch self {
      case .nothing: return nil
      case .stale:
        close(try SocketFile.bind(path, mode: 0o600).descriptor)
        return nil
      case .served:
        let descriptor = try SocketFile.bind(path, mode: 0o600).descriptor
        listen(descriptor, 1)
        return descriptor
      case .datagram:
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let result = withUnsafePointer(to: &address) { pointer in
          pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
        }
        #expect(result == 0)
        return descriptor
      case .file:
        try Data("mine".utf8).write(to: URL(fileURLWithPath: path))
        return nil
      }
    }
  }

  @Test("only the socket of a killed process is replaced", arguments: Before.allCases)
  func replaces(before: Before) async throws {
    try await Served.inFolder { folder in
      let path = folder + "/s.sock"
      let other = try before.prepare(path)
      defer { if let other { close(other) } }
      if let failure = before.failure {
        #expect(throws: failure) { _ = try SocketFile.bind(path, mode: 0o600) }
        #expect(FileManager.default.fileExists(atPath: path))
      } else {
        let (descriptor, file) = try SocketFile.bind(path, mode: 0o600)
        close(descriptor)
        file.remove()
        #expect(!FileManager.default.fileExists(atPath: path))
      }
    }
  }

  @Test("no user other than root and this one can replace the socket", arguments: SocketFolders.modes)
  func folders(_ mode: UInt32, _ isSafe: Bool) async throws {
    try await Served.inFolder { folder in
      #expect(chmod(folder, mode) == 0)
      for folderMode: UInt32? in [nil, 0o700] {
        check(folder, folderMode, isSafe ? nil : .unsafeFolder(folder, detail: SocketFolders.detail(mode)))
      }
    }
  }

  @Test("the folder of another user is refused", .enabled(if: geteuid() == 0)) func foreign() async throws {
    try await Served.inFolder { folder in
      #expect(chown(folder, 4242, 4242) == 0)
      check(folder, 0o700, .unsafeFolder(folder, detail: "it belongs to user 4242"))
    }
  }

  @Test("a missing folder is made only with a mode") func missing() async throws {
    try await Served.inFolder { folder in
      let missing = folder + "/missing"
      check(missing, nil, .failed(path: missing, call: "stat", code: ENOENT))
      check(missing, 0o700, nil)
    }
  }

  private func check(_ folder: String, _ folderMode: UInt32?, _ failure: SocketFile.Failure?) {
    do throws(SocketFile.Failure) {
      let bound = try SocketFile.bind(folder + "/s.sock", mode: 0o600, folderMode: folderMode)
      close(bound.descriptor)
      bound.file.remove()
      #expect(failure == nil)
    } catch {
      #expect(error == failure)
    }
  }

  @Test("a path that no socket can have is refused with the limit", arguments: [107, 108, 300])
  func lengths(length: Int) async throws {
    try await Served.inFolder { folder in
      let path = folder + "/" + String(repeating: "p", count: length - folder.utf8.count - 1)
      if length > 107 {
        #expect(throws: SocketFile.Failure.pathTooLong(limit: 107)) { _ = try SocketFile.bind(path, mode: 0o600) }
      } else {
        close(try SocketFile.bind(path, mode: 0o600).descriptor)
      }
    }
  }

  @Test("a path with a zero byte, or an empty one, is refused", arguments: ["", "/tmp/a\0b"])
  func zeros(path: String) {
    #expect(throws: SocketFile.Failure.failed(path: path, call: "bind", code: EINVAL)) {
      _ = try SocketFile.bind(path, mode: 0o600)
    }
  }
}
