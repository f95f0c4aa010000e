import NIOCore
import NIOPosix
import Synchronization

/// A TCP relay on loopback that remembers all that passes. Closed, its port refuses connections, as a provider that is
/// down does; it can be opened again at the same port.
final class Relay: Sendable {
  /// A separate address, so that no other process gets its port while it is closed.
  let host = "127.\(UInt8.random(in: 1...254)).\(UInt8.random(in: 0...255)).\(UInt8.random(in: 1...254))"
  private let target: Int
  private let passed = Mutex<[UInt8]>([])
  private let open = Mutex<(port: Int, serving: Task<Void, Never>?)>((0, nil))

  init(to target: Int) { self.target = target }

  var port: Int { open.withLock { $0.port } }

  /// All bytes of both directions so far.
  var record: String { String(decoding: passed.withLock { $0 }, as: UTF8.self) }

  func start() async throws {
    let listener = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .bind(host: host, port: port) { channel in
        channel.eventLoop.makeCompletedFuture {
          try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
        }
      }
    let port = listener.channel.localAddress?.port ?? 0
    let serving = Task<Void, Never> {
      // Ends when the relay is closed; nothing else ends it.
      try? await listener.executeThenClose { connections in
        try await withThrowingDiscardingTaskGroup { group in
          for try await connection in connections { group.addTask { await self.relay(connection) } }
        }
      }
    }
    open.withLock { $0 = (port, serving) }
  }

  func close() async {
    let serving = open.withLock { $0.serving }
    serving?.cancel()
    await serving?.value
  }

  private func relay(_ near: NIOAsyncChannel<ByteBuffer, ByteBuffer>) async {
    // The end of one side ends the other one too.
    try? await near.executeThenClose { fromNear, toNear in
      let far = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        .connect(host: "127.0.0.1", port: target) { channel in
          channel.eventLoop.makeCompletedFuture {
            try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
          }
        }
      try await far.executeThenClose { fromFar, toFar in
        await withTaskGroup(of: Void.self) { group in
          group.addTask { await self.copy(fromNear, to: toFar) }
          group.addTask { await self.copy(fromFar, to: toNear) }
          await group.next()
          group.cancelAll()
        }
      }
    }
  }

  private func copy(
    _ source: NIOAsyncChannelInboundStream<ByteBuffer>, to sink: NIOAsyncChannelOutboundWriter<ByteBuffer>
  ) async {
    do {
      for try await bytes in source {
        passed.withLock { $0 += bytes.readableBytesView }
        try await sink.write(bytes)
      }
    } catch {
      // The connection ended: so does the relay of it.
    }
  }
}
