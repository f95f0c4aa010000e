import Glibc
public import NIOCore
public import NIOPosix

extension ServerBootstrap {
  /// Listens with a socket that is bound. NIO calls listen(2) for it with its default of 128, and applies the option
  /// `backlog` only to sockets that it binds itself.
  public func listening(on descriptor: Int32, backlog: Int32) async throws -> any Channel {
    let channel = try await withBoundSocket(descriptor).get()
    _ = listen(descriptor, backlog)
    return channel
  }
}
