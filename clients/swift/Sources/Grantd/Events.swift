import AsyncClient
import BlockingClient
import BrokerAPI
import BrokerSocket

/// The type of an event. It may be one that this version does not name.
public struct EventType: RawRepresentable, Sendable, Hashable {
  public var rawValue: String
  public init(rawValue: String) { self.rawValue = rawValue }
}

/// A change of an account, a provider or the broker (docs/rpc.md).
public struct Event: Sendable {
  public let type: EventType
  /// Unix seconds.
  public let at: Int64
  public let account: String?
  public let provider: String?
  public let generation: Int64?
  public let reason: GrantError.Reason?
  public let message: String?
  public let hint: String?

  init?(_ params: JSON) {
    guard let type = params["type"]?.string else { return nil }
    self.type = EventType(rawValue: type)
    at = params["at"]?.integer ?? 0
    account = params["account"]?.string
    provider = params["provider"]?.string
    generation = params["generation"]?.integer
    reason = params["reason"]?.string.map { GrantError.Reason(rawValue: $0) }
    message = params["message"]?.string
    hint = params["hint"]?.string
  }
}

/// The events since the subscription, for one consumer. It throws ``GrantError`` `disconnected` when the broker ends:
/// subscribe again, and list the accounts to see the changes in between.
public struct Events: AsyncSequence, Sendable {
  public typealias Element = Event

  let connection: SocketClient
  let place: SocketChoice

  public struct AsyncIterator: AsyncIteratorProtocol {
    // Keeps the connection open.
    let connection: SocketClient
    let place: SocketChoice
    var notifications: AsyncStream<SocketClient.Notification>.Iterator

    public mutating func next() async throws -> Event? {
      while let notification = await notifications.next() {
        if notification.method == "event", let event = Event(notification.params) { return event }
      }
      try Task.checkCancellation()
      throw GrantError(.disconnected, at: place)
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(connection: connection, place: place, notifications: connection.notifications.makeAsyncIterator())
  }
}
