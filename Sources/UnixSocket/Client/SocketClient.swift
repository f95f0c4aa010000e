public import BlockingClient
public import BrokerAPI
import Glibc
public import NIOCore
public import NIOPosix

/// A connection to a broker. Calls may be made from many tasks at once; they are pipelined, and each gets its own answer.
public final class SocketClient: Sendable {
  /// Something that the broker said unasked, such as an `event`.
  public struct Notification: Sendable, Equatable {
    public var method: String
    public var params: JSON
  }

  /// Notifications kept for a consumer that is slow; the oldest are dropped beyond.
  public static let notificationBuffer = 1024
  /// Bytes of one answer.
  static let longestLine = 64 * 1024 * 1024
  /// Between attempts while the broker's queue of new connections is full.
  private static let retryDelay = Duration.milliseconds(5)

  /// Ends with the connection. For one consumer.
  public let notifications: AsyncStream<Notification>

  private let channel: any Channel
  private let answers: Answers

  private init(channel: any Channel, answers: Answers) {
    self.channel = channel
    self.answers = answers
    notifications = answers.notifications
  }

  deinit {
    channel.close(promise: nil)
  }

  /// - Parameter isExpected: whether the server may be of this user, as the kernel names them. Asked before anything is
  ///   sent; nil: whoever it is.
  public static func connect(
    path: String, timeout: Duration = .seconds(10), group: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton,
    from isExpected: (@Sendable (UInt32) -> Bool)? = nil
  ) async throws(SocketClientError) -> SocketClient {
    // A path that no socket can have.
    guard (try? Address(path)) != nil else { throw .notRunning(path) }
    let answers = Answers()
    let bootstrap = ClientBootstrap(group: group).connectTimeout(TimeAmount(timeout)).channelInitializer { channel in
      channel.eventLoop.makeCompletedFuture {
        try channel.pipeline.syncOperations.addHandler(ClientHandler(answers: answers))
      }
    }
    let end = NIODeadline.now() + TimeAmount(timeout)
    while true {
      do {
        let channel = try await bootstrap.connect(unixDomainSocketPath: path).get()
        let client = SocketClient(channel: channel, answers: answers)
        guard let isExpected else { return client }
        let server = try await credentials(of: channel)
        guard isExpected(server.uid) else { throw SocketClientError.foreignServer(path, uid: server.uid) }
        return client
      } catch let error as SocketClientError {
        throw error
      } catch {
        switch (error as? IOError)?.errnoCode {
        case ENOENT, ECONNREFUSED, ENOTDIR, ENOTSOCK: throw .notRunning(path)
        case EACCES, EPERM: throw .permissionDenied(path)
        case EAGAIN where NIODeadline.now() < end: break
        case EAGAIN: throw .timedOut
        // A server that refuses says why, and may close before its owner is asked for.
        default: throw answers.refusal ?? (error is ChannelError ? .timedOut : .disconnected)
        }
      }
      guard (try? await Task.sleep(for: retryDelay)) != nil else { throw .timedOut }
    }
  }

  /// As unix(7) has it.
  private struct Credentials: Sendable {
    var pid: Int32 = 0
    var uid: UInt32 = 0
    var gid: UInt32 = 0
  }

  /// Of who listened there (SO_PEERCRED).
  private static func credentials(of channel: any Channel) async throws -> Credentials {
    guard let options = channel as? any SocketOptionProvider else { throw SocketClientError.disconnected }
    return try await options.unsafeGetSocketOption(
      level: SocketOptionLevel(SOL_SOCKET), name: SocketOptionName(SO_PEERCRED)
    ).get()
  }

  /// Calls a method. Without a `timeout` the broker's own deadline for the method is the only one.
  public func call<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params, timeout: Duration? = nil
  ) async throws(SocketClientError) -> Method.Result {
    let result = try await call(method: Method.name, params: JSON(encoding: params), timeout: timeout)
    do throws(ParamsError) {
      return try result.decode(Method.Result.self, root: "result")
    } catch {
      throw .malformed(error.description)
    }
  }

  /// Calls a method by its name.
  public func call(
    method: String, params: JSON? = nil, timeout: Duration? = nil
  ) async throws(SocketClientError) -> JSON {
    let id = answers.newID()
    let line = OutgoingCall(method: method, params: params, id: Answers.rpcID(id)).line()
    let expiry = timeout.map { [answers] timeout in
      channel.eventLoop.scheduleTask(in: TimeAmount(timeout)) { answers.resolve(id, .failure(.timedOut)) }
    }
    defer { expiry?.cancel() }
    let answer = await withTaskCancellationHandler {
      await withCheckedContinuation { waiter in
        guard answers.expect(id, waiter) else { return }
        channel.writeAndFlush(ByteBuffer(bytes: line), promise: nil)
      }
    } onCancel: {
      answers.resolve(id, .failure(.timedOut))
    }
    return try answer.get()
  }

  public func close() async {
    try? await channel.close()
  }
}
