public import BlockingClient
public import BrokerAPI
import BrokerSocket
import Glibc
import Platform
import Synchronization

/// A connection to a broker. Calls may be made from many tasks at once; they are pipelined, and each gets its own answer.
/// A thread of its own connects and then reads; it ends with the connection.
public final class SocketClient: Sendable {
  /// Something that the broker said unasked, such as an `event`.
  public struct Notification: Sendable, Equatable {
    public var method: String
    public var params: JSON
  }

  public struct Limits: Sendable {
    /// Bytes of one line from the broker.
    public var line = ReceivedLines.longestLine
    /// Notifications kept for a slow consumer.
    public var notifications = 1024
    /// Whether the oldest notification is dropped beyond that limit. Otherwise the connection ends.
    public var dropsNotifications = true

    public init() {}
  }

  private static let readAtOnce = 64 * 1024

  /// Ends with the connection. For one consumer.
  public let notifications: AsyncStream<Notification>

  private let socket: ConnectedSocket
  private let answers: Answers
  /// One line is sent as a whole before the next begins.
  private let sending = Mutex(())

  private init(_ socket: ConnectedSocket, _ answers: Answers) {
    self.socket = socket
    self.answers = answers
    notifications = answers.notifications
  }

  deinit {
    socket.shutDown()
  }

  /// - Parameters:
  ///   - timeout: how long the broker's queue of new connections may be full, and how long the broker may take to read a
  ///     request.
  ///   - isExpected: whether the server may be of this user, as the kernel names them. Asked before anything is sent; nil:
  ///     any user.
  public static func connect(
    path: String, timeout: Duration = .seconds(10), limits: Limits = Limits(),
    from isExpected: (@Sendable (UInt32) -> Bool)? = nil
  ) async throws(SocketClientError) -> SocketClient {
    let answers = Answers(limits)
    let connected: Result<ConnectedSocket, SocketClientError> = await withCheckedContinuation { waiter in
      let code = OwnThread.start("client") {
        let result = Result { () throws(ConnectFailure) in
          try ConnectedSocket.connect(path: path, within: timeout, from: isExpected ?? { _ in true })
        }
        waiter.resume(returning: result.mapError { SocketClientError($0, at: path) })
        if case .success(let socket) = result { read(socket, answers, limits) }
      }
      if code != 0 { waiter.resume(returning: .failure(.disconnected)) }
    }
    return SocketClient(try connected.get(), answers)
  }

  /// Delivers each message, until the connection ends.
  private static func read(_ socket: ConnectedSocket, _ answers: Answers, _ limits: Limits) {
    var lines = ReceivedLines(longest: limits.line)
    while true {
      let piece = socket.receive(atMost: readAtOnce)
      guard !piece.isEmpty else { return answers.end(.disconnected) }
      lines.append(piece)
      while let line = lines.next() {
        guard let message = try? ServerMessage.parse(line) else { return breakOff(socket, answers) }
        answers.received(message)
      }
      if lines.isTooLong { return breakOff(socket, answers) }
    }
  }

  private static func breakOff(_ socket: ConnectedSocket, _ answers: Answers) {
    answers.end(.malformed("no JSON-RPC message on the line"))
    socket.shutDown()
  }

  /// Whether calls can have no answer any more.
  public var hasEnded: Bool { answers.hasEnded }

  /// Calls a method by its name.
  public func call(
    method: String, params: JSON? = nil, timeout: Duration? = nil
  ) async throws(SocketClientError) -> JSON {
    let id = answers.newID()
    let line = OutgoingCall(method: method, params: params, id: Answers.rpcID(id)).line()
    let expiry = timeout.map { [answers] timeout in
      Task { if (try? await Task.sleep(for: timeout)) != nil { answers.resolve(id, .failure(.timedOut)) } }
    }
    defer { expiry?.cancel() }
    let answer = await withTaskCancellationHandler {
      await withCheckedContinuation { waiter in
        if answers.expect(id, waiter) { send(line) }
      }
    } onCancel: {
      answers.resolve(id, .failure(.timedOut))
    }
    return try answer.get()
  }

  /// The reading thread learns of a failure as the end of the connection, behind what the server has said before.
  private func send(_ line: [UInt8]) {
    let isSent = sending.withLock { _ in socket.send(line) }
    if !isSent { socket.shutDown() }
  }

  public func close() async { socket.shutDown() }
}
