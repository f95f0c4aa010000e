import AsyncClient
import BlockingClient
import BrokerAPI
import BrokerSocket
import Glibc
import Synchronization

extension GrantClient {
  /// The broker's own limit if a request names none, and how much longer the client waits for the broker's answer.
  static let defaultTimeout = Duration.seconds(30)
  static let grace = Duration.seconds(5)
  /// The time of one question about a login.
  static let loginWait = Duration.seconds(30)
  /// Bytes of one answer, requests without an answer, and events that the program has not taken.
  private static let longestLine = 1 << 20
  private static let mostWaiting = 1000
  private static let mostEvents = 10_000

  struct State {
    var connection: WatchedConnection?
    /// One connection for calls that begin at once.
    var opening: Task<WatchedConnection, any Error>?
    var waiting = 0
  }

  var place: SocketChoice {
    SocketChoice(
      SocketChoice.Wish(socket: socket), environment: { getenv($0).map { String(cString: $0) } }, uid: getuid(),
      exists: { access($0, F_OK) == 0 })
  }

  func connect(_ place: SocketChoice) async throws -> WatchedConnection {
    var limits = SocketClient.Limits()
    (limits.line, limits.notifications, limits.dropsNotifications) = (Self.longestLine, Self.mostEvents, false)
    do {
      let client = try await SocketClient.connect(path: place.path, limits: limits) { uid in
        place.isNamed || ServerOwner.isExpected(uid, at: place.path)
      }
      return WatchedConnection(client)
    } catch {
      throw GrantError(error, at: place, isConnecting: true)
    }
  }

  /// The result of a method, on the kept connection, once more if that is harmless and useful.
  func result(_ method: String, _ members: [JSON.Member], _ timeout: Duration? = nil) async throws -> JSON {
    var params = members
    if let timeout, Self.timed.contains(method) {
      params.append(JSON.Member(name: "timeout", value: .double(timeout / .seconds(1))))
    }
    let limit = (timeout ?? Self.defaultTimeout) + Self.grace
    try begin()
    defer { state.withLock { $0.waiting -= 1 } }
    let connection = try await open()
    do {
      return try await exchange(connection, method, .object(params), limit)
    } catch GrantError.Reason.shuttingDown {
    } catch GrantError.Reason.disconnected where Self.repeatable.contains(method) {
    }
    forget(connection)
    return try await exchange(open(), method, .object(params), limit)
  }

  private func begin() throws(GrantError) {
    let isTooMany = state.withLock { state in
      guard state.waiting < Self.mostWaiting else { return true }
      state.waiting += 1
      return false
    }
    if isTooMany {
      throw GrantError(.overloaded, "too many requests of this process wait", hint: "Make fewer calls at once.")
    }
  }

  func exchange(
    _ connection: WatchedConnection, _ method: String, _ params: JSON, _ limit: Duration
  ) async throws -> JSON {
    try Task.checkCancellation()
    do {
      return try await connection.call(method: method, params: params, within: limit)
    } catch {
      // A cancelled call ends as one that is late.
      if error == .timedOut { try Task.checkCancellation() }
      throw GrantError(error, at: place)
    }
  }

  /// New requests use another connection. This one ends with its last request.
  private func forget(_ connection: WatchedConnection) {
    state.withLock { if $0.connection === connection { $0.connection = nil } }
  }

  private func open() async throws -> WatchedConnection {
    let (connection, opening) = state.withLock { state -> (WatchedConnection?, Task<WatchedConnection, any Error>?) in
      if let connection = state.connection, !connection.client.hasEnded { return (connection, nil) }
      if let opening = state.opening { return (nil, opening) }
      let place = self.place
      let opening = Task { try await connect(place) }
      state.opening = opening
      return (nil, opening)
    }
    if let connection { return connection }
    let made = await opening?.result
    state.withLock { state in
      guard state.opening == opening else { return }
      state.opening = nil
      state.connection = try? made?.get()
    }
    try Task.checkCancellation()
    guard let made else { throw GrantError(.disconnected, at: place) }
    return try made.get()
  }
}
