import AsyncClient
import BrokerAPI
import Synchronization

/// A client of the broker, for all tasks of the process. It keeps one connection, which opens with the first call.
///
///     let token = try await GrantClient.shared.token("work")
///
/// Calls throw ``GrantError``, or `CancellationError` if the task is cancelled. docs/libraries.md describes the behaviour,
/// which all libraries share.
public final class GrantClient: Sendable {
  public static let shared = GrantClient()

  let socket: String?
  let state = Mutex(State())

  /// - Parameter socket: path of the broker's socket; nil: GRANTD_SOCKET, then the user's broker, then the system's.
  public init(socket: String? = nil) {
    self.socket = socket
  }

  /// An access token that is valid now; the broker refreshes it first if necessary.
  ///
  /// - Parameters:
  ///   - account: the name of the account.
  ///   - scopes: the scopes of the token, if fewer than granted (RFC 6749 §6).
  ///   - resource: the resource that the token is for (RFC 8707).
  ///   - minTTL: how long the token must still be valid.
  ///   - timeout: how long to wait for a refresh; 30 s by default, at most 300 s.
  public func token(
    _ account: String, scopes: [String]? = nil, resource: String? = nil, minTTL: Duration? = nil,
    timeout: Duration? = nil
  ) async throws -> Token {
    var params = [JSON.Member(name: "account", value: .string(account))]
    if let scopes { params.append(JSON.Member(name: "scopes", value: .array(scopes.map { .string($0) }))) }
    if let resource { params.append(JSON.Member(name: "resource", value: .string(resource))) }
    if let minTTL { params.append(JSON.Member(name: "min_ttl", value: .double(minTTL / .seconds(1)))) }
    if let timeout { params.append(JSON.Member(name: "timeout", value: .double(timeout / .seconds(1)))) }
    var taken: Token?
    let result = try await reply(Request(tokenFor: .object(params)) { taken = $0 }, timeout)
    return try taken ?? Token(result)
  }

  /// Reports that a server answered 401 to the token. Returns the generation of the current token. Report a token once,
  /// then call ``token(_:scopes:resource:minTTL:timeout:)`` again.
  @discardableResult
  public func reportRejected(_ token: Token, timeout: Duration? = nil) async throws -> Int64 {
    try await reportRejected(account: token.account, generation: token.generation, timeout: timeout)
  }

  @discardableResult
  public func reportRejected(account: String, generation: Int64, timeout: Duration? = nil) async throws -> Int64 {
    let params = [
      JSON.Member(name: "account", value: .string(account)),
      JSON.Member(name: "generation", value: .integer(generation)),
    ]
    guard let current = try await result("token.report_rejected", params, timeout)["generation"]?.integer else {
      throw GrantError.bad("has no generation")
    }
    return current
  }

  /// Sends a request with the account's token. If the response is 401, the token is reported, and the request sent once more
  /// with a new one.
  ///
  /// - Parameters:
  ///   - account: the name of the account.
  ///   - scopes: the scopes of the token, if fewer than granted.
  ///   - resource: the resource that the token is for.
  ///   - canRepeat: false if the body of the request can be sent only once.
  ///   - isolation: the actor that calls.
  ///   - isUnauthorized: whether the status of the response is 401.
  ///   - send: sends the request with the token.
  public func withToken<Response>(
    _ account: String, scopes: [String]? = nil, resource: String? = nil, canRepeat: Bool = true,
    isolation: isolated (any Actor)? = #isolation, isUnauthorized: (Response) -> Bool,
    send: (Token) async throws -> Response
  ) async throws -> Response {
    let token = try await token(account, scopes: scopes, resource: resource)
    let response = try await send(token)
    guard canRepeat, isUnauthorized(response) else { return response }
    try await reportRejected(token)
    return try await send(self.token(account, scopes: scopes, resource: resource))
  }

  /// All accounts that this process may see.
  public func accounts() async throws -> [Account] {
    var found: [Account] = []
    var after: String?
    while true {
      let page = try await result("account.list", after.map { [JSON.Member(name: "after", value: .string($0))] } ?? [])
      found += page["accounts"]?.array?.compactMap { Account($0) } ?? []
      // A page that does not go on would be requested without an end.
      guard let next = page["next"]?.string, next != after else { return found }
      after = next
    }
  }

  /// Signs a user in. `show` gets the places to sign in. Returns when the login is completed or requires another action.
  public func login(
    provider: String, account: String? = nil, isolation: isolated (any Actor)? = #isolation,
    show: ([Destination]) -> Void
  ) async throws -> LoginResult {
    var params = [JSON.Member(name: "provider", value: .string(provider))]
    if let account { params.append(JSON.Member(name: "account", value: .string(account))) }
    let started = try await result("login.start", params)
    show(started["destinations"]?.array?.map { Destination($0) } ?? [])
    guard let login = started["login_id"] else { throw GrantError.bad("has no login") }
    // It ends: the broker ends each login at its `expires_at` with an error.
    while true {
      let answer = try await result("login.wait", [JSON.Member(name: "login_id", value: login)], Self.loginWait)
      if answer["state"] != "pending" { return LoginResult(answer) }
    }
  }

  /// Any method (docs/rpc.md). After a lost connection it is called again only if that is harmless. The encoding of
  /// `params` must not throw.
  public func call<Result: Decodable>(
    _ method: String, _ params: some Encodable = [String: String](), as type: Result.Type, timeout: Duration? = nil
  ) async throws -> Result {
    let found = try await result(method, JSON(encoding: params).members ?? [], timeout)
    guard let decoded = try? found.decode(type, root: "result") else { throw GrantError.bad("has another type") }
    return decoded
  }

  /// Events from now on, on a separate connection, which is subscribed when this returns. No types: all.
  public func events(_ types: [EventType] = []) async throws -> Events {
    let place = self.place
    let connection = try await connect(place)
    let names = types.map { JSON.string($0.rawValue) }
    let params = names.isEmpty ? JSON.object([]) : .object([JSON.Member(name: "events", value: .array(names))])
    _ = try await exchange(connection, Request("events.subscribe", params), Self.defaultTimeout + Self.grace)
    return Events(connection: connection.client, place: place)
  }

  /// Closes the connection. The next call opens another.
  public func close() async {
    let connection = state.withLock { state in
      defer { state.connection = nil }
      return state.connection
    }
    await connection?.client.close()
  }
}
