import NIOCore
import NIOPosix
import Synchronization

/// An OpenID Connect provider on loopback with faults on demand. It signs in whoever asks, so it serves demonstrations
/// and tests, never people's accounts.
///
/// It shares no protocol code with the client it tests, so that a misreading of an RFC is not made twice.
public final class DemoServer: Sendable {
  /// `http://HOST:PORT`, as in the discovery document and in ID tokens.
  public let issuer: String
  public let port: Int
  let provider: Provider
  private let serving: Task<Void, Never>

  /// Why a server could not start.
  public enum StartError: Error, CustomStringConvertible {
    /// It listens on 127.0.0.1 or ::1 only.
    case notLoopback(String)

    public var description: String {
      switch self {
      case .notLoopback(let host): "the demo provider listens on 127.0.0.1 or ::1 only, not on \(host)"
      }
    }
  }

  /// A fault or a user name that makes no sense.
  public struct Misuse: Error, CustomStringConvertible {
    public let description: String
  }

  private init(issuer: String, port: Int, provider: Provider, serving: Task<Void, Never>) {
    self.issuer = issuer
    self.port = port
    self.provider = provider
    self.serving = serving
  }

  /// Listens; requests are answered once this returns. Throws `StartError`, or what the kernel says of the address.
  public static func start(_ options: Options = Options()) async throws -> DemoServer {
    let host = options.host
    guard host == "127.0.0.1" || host == "::1" else { throw StartError.notLoopback(host) }
    let listener = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .serverChannelOption(.backlog, value: Limits.backlog)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .bind(host: host, port: options.port) { channel in
        channel.eventLoop.makeCompletedFuture { try HTTPConnection.configure(channel) }
      }
    let port = listener.channel.localAddress?.port ?? options.port
    let issuer = "http://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    let provider = try Provider(issuer: issuer, options: options)
    let serving = Task<Void, Never> {
      // The listener ends when the server stops; nothing else ends it.
      try? await listener.executeThenClose { connections in
        try await withThrowingDiscardingTaskGroup { group in
          for try await connection in connections {
            group.addTask { await HTTPConnection.serve(connection, provider) }
          }
        }
      }
    }
    return DemoServer(issuer: issuer, port: port, provider: provider, serving: serving)
  }

  /// Closes the listener and every connection; returns when they are closed.
  public func stop() async {
    serving.cancel()
    await serving.value
  }

  /// Sets a fault, after those already set. Throws `Misuse` where it could never act.
  public func fault(_ fault: Fault) throws {
    do throws(ControlFailure) {
      try provider.add(fault)
    } catch {
      throw Misuse(description: error.description)
    }
  }

  /// Sets a fault and takes the common parameters in place.
  public func fault(
    _ kind: Fault.Kind, at place: Fault.Place, times: Int? = nil, _ change: (inout Fault.Parameters) -> Void = { _ in }
  ) throws {
    try fault(Fault(kind, at: place, times: times, .with(change)))
  }

  /// The answers that are delayed now come at once.
  public func release() {
    provider.release()
  }

  /// Faults, counts and settings as at the start; grants and keys stay.
  public func reset() {
    provider.reset()
  }

  public func stats() -> Stats {
    provider.stats()
  }

  public func changeSettings(_ change: @Sendable (inout Settings) -> Void) {
    provider.ledger.withLock { change(&$0.settings) }
  }

  /// Ends every grant of a user, as when the user withdraws consent; how many lived. Throws `Misuse` for a stranger.
  @discardableResult
  public func revoke(user name: String) throws -> Int {
    guard let user = User(hint: name) else { throw Misuse(description: "user is alice, bob or user-N") }
    return provider.revoke(user)
  }
}
