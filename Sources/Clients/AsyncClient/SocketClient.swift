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
    /// Whether a caller reads its answer in its thread. Nothing is read while no answer is expected: a connection that has
    /// ended is noticed at the next call.
    public var callersRead = false

    public init() {}
  }

  /// Ends with the connection. For one consumer.
  public let notifications: AsyncStream<Notification>

  private let socket: ConnectedSocket
  private let answers: Answers
  /// Nil: a thread reads until the end.
  private let reading: Reading?
  /// One line is sent as a whole before the next begins.
  private let sending = Mutex(())

  private init(_ socket: ConnectedSocket, _ answers: Answers, _ reading: Reading?) {
    self.socket = socket
    self.answers = answers
    self.reading = reading
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
        if case .success(let socket) = result, !limits.callersRead { Reading(socket, answers, limits).readAll() }
      }
      if code != 0 { waiter.resume(returning: .failure(.disconnected)) }
    }
    let socket = try connected.get()
    return SocketClient(socket, answers, limits.callersRead ? Reading(socket, answers, limits) : nil)
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
    return try await answer(to: id) { send(line) }
  }

  /// A call that failed, and whether the connection had ended before: the broker has not seen the call.
  public struct Failure: Error {
    public var error: SocketClientError
    public var isUnsent: Bool

    public init(_ error: SocketClientError, isUnsent: Bool = false) {
      (self.error, self.isUnsent) = (error, isUnsent)
    }
  }

  /// A call that was sent.
  public enum Begun {
    /// The caller has taken its answer.
    case taken
    case answered(JSON)
    /// The answer takes longer: ``answer(to:)``.
    case waits(Int64)
  }

  /// Sends a request, and reads the answer in this thread if it comes at once.
  ///
  /// - Parameters:
  ///   - line: the request of that number, with the newline.
  ///   - take: whether the caller takes the text, with the newline, as its answer to the request of that number.
  public func begin(
    line: (Int64) -> [UInt8], take: (UnsafeBufferPointer<UInt8>, Int64) -> Bool
  ) throws(Failure) -> Begun {
    let id = answers.newID()
    let line = line(id)
    let isReader = reading?.begin() ?? false
    guard sending.withLock({ _ in socket.send(line) }) else {
      let isUnsent = errno == EPIPE
      answers.end(.disconnected)
      socket.shutDown()
      throw Failure(.disconnected, isUnsent: isUnsent)
    }
    switch isReader ? reading?.answer(to: id, take) : nil {
    case .taken?: return .taken
    case .answer(.success(let result))?: return .answered(result)
    case .answer(.failure(let error))?: throw Failure(error)
    case nil: return .waits(id)
    }
  }

  /// The answer to a call that waits. Once for each.
  public func answer(to id: Int64) async throws(Failure) -> JSON {
    do throws(SocketClientError) {
      return try await answer(to: id) {}
    } catch {
      throw Failure(error)
    }
  }

  private func answer(to id: Int64, sending send: () -> Void) async throws(SocketClientError) -> JSON {
    let answer = await withTaskCancellationHandler {
      await withCheckedContinuation { waiter in
        if answers.expect(id, waiter) { send() }
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
