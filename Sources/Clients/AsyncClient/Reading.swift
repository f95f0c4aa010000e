import BlockingClient
import BrokerAPI
import BrokerSocket
import Platform
import Synchronization

/// Reads a connection: a thread until its end, or each caller for itself.
///
/// A caller that finds no other reads its answer in its own thread: a cached token comes in microseconds, and two threads
/// that wake each other up take several times as long. If others call during this time, or the answer takes longer, a
/// thread reads for all until nothing is expected.
final class Reading: Sendable {
  /// glibc merges its free blocks each time one of 64 KiB is freed.
  private static let atOnce = 16 * 1024
  /// How long a caller holds its thread, which may be one of Swift's pool.
  private static let briefly = Duration.milliseconds(1)

  private let socket: ConnectedSocket
  private let answers: Answers
  /// Whether receiving has a limit of time.
  private let isLimited: Bool
  /// For the one that reads.
  private let lines: Mutex<ReceivedLines>
  private let isRead = Mutex(false)

  init(_ socket: ConnectedSocket, _ answers: Answers, _ limits: SocketClient.Limits) {
    self.socket = socket
    self.answers = answers
    lines = Mutex(ReceivedLines(longest: limits.line))
    isLimited = limits.callersRead
    if isLimited { socket.limitReceiving(Self.briefly) }
  }

  /// Delivers each message, until the connection ends.
  func readAll() {
    while receive() {}
  }

  /// Whether the caller reads now: no other does.
  func begin() -> Bool {
    isRead.withLock { isRead in
      defer { isRead = true }
      return !isRead
    }
  }

  enum Early {
    case taken
    case answer(Answers.Answer)
  }

  /// After ``begin()``: the answer to a call that was sent, if it comes at once. Otherwise a thread reads.
  func answer(to id: Int64, _ take: (UnsafeBufferPointer<UInt8>, Int64) -> Bool) -> Early? {
    var early: Early?
    // One piece only: the answers to other calls do not hold this thread.
    if let piece = socket.receiveInTime(atMost: Self.atOnce) {
      if lines.withLock(\.isEmpty), piece.withUnsafeBufferPointer({ take($0, id) }) {
        answers.drop(id)
        early = .taken
      } else if deliver(piece) {
        early = answers.early(id).map { .answer($0) }
      }
    }
    if mustContinue() { start() }
    return early
  }

  /// Whether calls wait. If not, the next one reads for itself.
  private func mustContinue() -> Bool {
    isRead.withLock { isRead in
      isRead = answers.areExpected
      return isRead
    }
  }

  private func start() {
    let code = OwnThread.start("client") { [self] in
      while receive(), mustContinue() {}
    }
    if code != 0 { breakOff(.disconnected) }
  }

  /// Waits for input and delivers it. False: the connection has ended.
  private func receive() -> Bool {
    var endless: Duration?
    guard !isLimited || socket.hasInput(within: &endless) else { return deliver([]) }
    return deliver(socket.receive(atMost: Self.atOnce))
  }

  private func deliver(_ piece: [UInt8]) -> Bool {
    guard !piece.isEmpty else {
      answers.end(.disconnected)
      return false
    }
    return lines.withLock { lines in
      lines.append(piece)
      while let line = lines.next() {
        guard let message = try? ServerMessage.parse(line) else { return breakOff(Self.malformed) }
        answers.received(message)
      }
      return !lines.isTooLong || breakOff(Self.malformed)
    }
  }

  private static let malformed = SocketClientError.malformed("no JSON-RPC message on the line")

  @discardableResult
  private func breakOff(_ reason: SocketClientError) -> Bool {
    answers.end(reason)
    socket.shutDown()
    return false
  }
}
