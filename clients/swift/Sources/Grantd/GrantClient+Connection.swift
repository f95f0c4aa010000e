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

    var usable: WatchedConnection? { connection.flatMap { $0.client.hasEnded ? nil : $0 } }
  }

  var place: SocketChoice {
    SocketChoice(
      SocketChoice.Wish(socket: socket), environment: { getenv($0).map { String(cString: $0) } }, uid: getuid(),
      exists: { access($0, F_OK) == 0 })
  }

  func connect(_ place: SocketChoice, callersRead: Bool = false) async throws -> WatchedConnection {
    var limits = SocketClient.Limits()
    (limits.line, limits.notifications, limits.dropsNotifications) = (Self.longestLine, Self.mostEvents, false)
    limits.callersRead = callersRead
    do {
      let client = try await SocketClient.connect(path: place.path, limits: limits) { uid in
        place.isNamed || ServerOwner.isExpected(uid, at: place.path)
      }
      return WatchedConnection(client)
    } catch {
      throw GrantError(error, at: place, isConnecting: true)
    }
  }

  func result(_ method: String, _ members: [JSON.Member], _ timeout: Duration? = nil) async throws -> JSON {
    var params = members
    if let timeout, Self.timed.contains(method) {
      params.append(JSON.Member(name: "timeout", value: .double(timeout / .seconds(1))))
    }
    return try await reply(Request(method, .object(params)), timeout)
  }

  /// The result of a request, on the kept connection, once more if that is harmless and useful. Null if the request has taken
  /// its answer.
  func reply(_ request: Request, _ timeout: Duration?) async throws -> JSON {
    let limit = (timeout ?? Self.defaultTimeout) + Self.grace
    let kept = try begin()
    defer { state.withLock { $0.waiting -= 1 } }
    let connection: WatchedConnection
    if let kept { connection = kept } else { connection = try await open() }
    do {
      // An answer that comes at once needs no function that can suspend.
      switch try attempt(connection, request) {
      case .taken: return .null
      case .answered(let result): return result
      case .waits(let id): return try await finish(connection, id, limit)
      }
    } catch is Unsent {
    } catch GrantError.Reason.shuttingDown {
    } catch GrantError.Reason.disconnected where Self.repeatable.contains(request.method) {
    }
    forget(connection)
    return try await exchange(open(), request, limit)
  }

  /// The connection had ended before: the broker has not seen the call.
  private struct Unsent: Error {}

  /// The kept connection, if it is usable.
  private func begin() throws(GrantError) -> WatchedConnection? {
    let (isTooMany, kept) = state.withLock { state -> (Bool, WatchedConnection?) in
      guard state.waiting < Self.mostWaiting else { return (true, nil) }
      state.waiting += 1
      return (false, state.usable)
    }
    if isTooMany {
      throw GrantError(.overloaded, "too many requests of this process wait", hint: "Make fewer calls at once.")
    }
    return kept
  }

  func exchange(_ connection: WatchedConnection, _ request: Request, _ limit: Duration) async throws -> JSON {
    do {
      switch try attempt(connection, request) {
      case .taken: return .null
      case .answered(let result): return result
      case .waits(let id): return try await finish(connection, id, limit)
      }
    } catch is Unsent {
      throw GrantError(.disconnected, at: place)
    }
  }

  private func attempt(_ connection: WatchedConnection, _ request: Request) throws -> SocketClient.Begun {
    try Task.checkCancellation()
    do throws(SocketClient.Failure) {
      return try connection.client.begin(line: request.line, take: request.take)
    } catch {
      if error.isUnsent { throw Unsent() }
      throw GrantError(error.error, at: place)
    }
  }

  private func finish(_ connection: WatchedConnection, _ id: Int64, _ limit: Duration) async throws -> JSON {
    do throws(SocketClient.Failure) {
      return try await connection.answer(to: id, within: limit)
    } catch {
      // A cancelled call ends as one that is late.
      if error.error == .timedOut { try Task.checkCancellation() }
      throw GrantError(error.error, at: place)
    }
  }

  /// New requests use another connection. This one ends with its last request.
  private func forget(_ connection: WatchedConnection) {
    state.withLock { if $0.connection === connection { $0.connection = nil } }
  }

  private func open() async throws -> WatchedConnection {
    let (connection, opening) = state.withLock { state -> (WatchedConnection?, Task<WatchedConnection, any Error>?) in
      if let connection = state.usable { return (connection, nil) }
      if let opening = state.opening { return (nil, opening) }
      let place = self.place
      let opening = Task { try await connect(place, callersRead: true) }
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
