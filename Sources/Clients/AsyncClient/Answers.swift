import BlockingClient
import BrokerAPI
import Synchronization

/// Who waits for which answer on a client's connection.
final class Answers: Sendable {
  typealias Answer = Result<JSON, SocketClientError>

  private enum Entry {
    case waiting(CheckedContinuation<Answer, Never>)
    /// The answer, or the end of the wait, came before the waiter.
    case early(Answer)
  }

  private struct State {
    var entries: [Int64: Entry] = [:]
    /// The calls that have been made and not ended.
    var open: Set<Int64> = []
    var nextID: Int64 = 1
    var end: SocketClientError?
  }

  private let state = Mutex(State())
  let notifications: AsyncStream<SocketClient.Notification>
  private let feed: AsyncStream<SocketClient.Notification>.Continuation
  private let limits: SocketClient.Limits

  init(_ limits: SocketClient.Limits) {
    self.limits = limits
    (notifications, feed) = AsyncStream.makeStream(
      bufferingPolicy: limits.dropsNotifications
        ? .bufferingNewest(limits.notifications) : .bufferingOldest(limits.notifications))
  }

  /// Whether calls have no answer yet.
  var areExpected: Bool { state.withLock { !$0.open.isEmpty && $0.end == nil } }

  var hasEnded: Bool { state.withLock { $0.end != nil } }

  static func rpcID(_ id: Int64) -> RPCID { .number("\(id)") }

  func newID() -> Int64 {
    state.withLock { state in
      defer { state.nextID += 1 }
      state.open.insert(state.nextID)
      return state.nextID
    }
  }

  /// False: it is answered already, and nothing need be sent.
  func expect(_ id: Int64, _ waiter: CheckedContinuation<Answer, Never>) -> Bool {
    let answer: Answer? = state.withLock { state in
      if case .early(let answer) = state.entries.removeValue(forKey: id) { return answer }
      if let end = state.end { return .failure(end) }
      state.entries[id] = .waiting(waiter)
      return nil
    }
    guard let answer else { return true }
    _ = state.withLock { $0.open.remove(id) }
    waiter.resume(returning: answer)
    return false
  }

  /// The answer, or the end of the connection, before the caller waits.
  func early(_ id: Int64) -> Answer? {
    state.withLock { state in
      guard case .early(let answer) = state.entries[id] else { return nil }
      state.entries[id] = nil
      state.open.remove(id)
      return answer
    }
  }

  /// The caller has the answer.
  func drop(_ id: Int64) { _ = state.withLock { $0.open.remove(id) } }

  func resolve(_ id: Int64, _ answer: Answer) {
    let waiter: CheckedContinuation<Answer, Never>? = state.withLock { state in
      guard state.open.contains(id) else { return nil }
      guard case .waiting(let waiter) = state.entries.removeValue(forKey: id) else {
        state.entries[id] = .early(answer)
        return nil
      }
      state.open.remove(id)
      return waiter
    }
    waiter?.resume(returning: answer)
  }

  func received(_ message: ServerMessage) {
    switch message {
    case .notification(let method, let params):
      let kept = feed.yield(SocketClient.Notification(method: method, params: params))
      if case .dropped = kept, !limits.dropsNotifications { end(.disconnected) }
    case .reply(.number(let literal), let result):
      guard let id = Int64(literal) else { return }
      resolve(id, result.mapError { .rpc($0) })
    case .reply(.null, .failure(let error)):
      // About the connection as a whole: it is refused.
      end(.rpc(error))
    case .reply(.null, .success), .reply(.string, _):
      break
    }
  }

  /// The connection is over; the first reason stays.
  func end(_ reason: SocketClientError) {
    let (ids, last) = state.withLock { state in
      state.end = state.end ?? reason
      return (Array(state.entries.keys), state.end ?? reason)
    }
    for id in ids { resolve(id, .failure(last)) }
    feed.finish()
  }
}
