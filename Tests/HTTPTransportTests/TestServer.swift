import Foundation
import NIOCore
import NIOPosix
import Testing

/// A server on a loopback port that the kernel chooses.
enum TestServer {
  /// Serves for the time of `body`, which gets its address.
  ///
  /// - Parameter setUp: adds the handlers of an accepted connection.
  static func with(
    _ scheme: String = "http", path: String = "", _ setUp: @escaping @Sendable (any Channel) throws -> Void,
    _ body: (URL) async throws -> Void
  ) async throws {
    let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .childChannelInitializer { channel in channel.eventLoop.makeCompletedFuture { try setUp(channel) } }
      .bind(host: "127.0.0.1", port: 0).get()
    do {
      try await body(try #require(URL(string: "\(scheme)://127.0.0.1:\(channel.localAddress?.port ?? 0)\(path)")))
    } catch {
      try await channel.close()
      throw error
    }
    try await channel.close()
  }
}
