import CLinux
import Foundation
import Glibc
import NIOPosix
import TestSupport
import Testing

@testable import HTTPServer

/// Clients of a Unix socket that send descriptors along with their bytes (SCM_RIGHTS): closing one may take as long as its
/// sender wants.
@Suite(.timeLimit(.minutes(5))) struct PassedDescriptorTests {
  /// Since Linux 6.16.
  private static let areRefused: Bool = {
    let any = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(any) }
    return clinux_refuse_descriptors(any) == 0
  }()

  /// A server on a Unix socket with this mode for the time of `body`, and its log.
  private func serving(mode: UInt32, _ body: (LocalListener) throws -> Void) async throws -> LoggedLines {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("pd-\(UUID().uuidString.prefix(8))").path
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var limits = HTTPServer.Limits()
    limits.mode = mode
    let (lines, address) = (LoggedLines(), LocalListener.unix(path: folder + "/h.sock"))
    let server = HTTPServer(
      address: address, limits: limits, group: MultiThreadedEventLoopGroup.singleton, logger: lines.logger(),
      application: Answers())
    _ = try await server.start()
    do { try body(address) } catch {
      await server.stop()
      throw error
    }
    await server.stop()
    return lines
  }

  @Test(
    "no client can send a descriptor if the kernel can refuse it",
    .enabled(if: areRefused, "this kernel passes descriptors to any receiver"))
  func refused() async throws {
    let lines = try await serving(mode: 0o666) { address in
      let (client, file) = (try connected(to: address), open("/dev/null", O_RDONLY | O_CLOEXEC))
      defer {
        close(client)
        close(file)
      }
      #expect(sendDescriptor(file, over: client) == EPERM)
    }
    #expect(lines.all.isEmpty)
  }

  @Test(
    "an older kernel is reported once for a socket of several users", .disabled(if: areRefused),
    arguments: [(0o666, 1), (0o660, 1), (0o600, 0)] as [(UInt32, Int)])
  func reported(mode: UInt32, count: Int) async throws {
    let lines = try await serving(mode: mode) { _ in }
    #expect(lines.all.count == count)
  }

  /// With one byte; 0 or the errno.
  private func sendDescriptor(_ descriptor: Int32, over socket: Int32) -> Int32 {
    let control = UnsafeMutableRawBufferPointer.allocate(byteCount: 24, alignment: 8)
    defer { control.deallocate() }
    control.initializeMemory(as: UInt8.self, repeating: 0)
    // CMSG_LEN(4).
    control.storeBytes(of: 20, toByteOffset: 0, as: Int.self)
    control.storeBytes(of: SOL_SOCKET, toByteOffset: 8, as: Int32.self)
    control.storeBytes(of: Int32(SCM_RIGHTS), toByteOffset: 12, as: Int32.self)
    control.storeBytes(of: descriptor, toByteOffset: 16, as: Int32.self)
    var byte = UInt8(ascii: "G")
    let sent = withUnsafeMutablePointer(to: &byte) { byte in
      var piece = iovec(iov_base: byte, iov_len: 1)
      return withUnsafeMutablePointer(to: &piece) { piece in
        var message = msghdr()
        message.msg_iov = piece
        message.msg_iovlen = 1
        message.msg_control = control.baseAddress
        message.msg_controllen = control.count
        return sendmsg(socket, &message, Int32(MSG_NOSIGNAL))
      }
    }
    return sent == 1 ? 0 : errno
  }
}
