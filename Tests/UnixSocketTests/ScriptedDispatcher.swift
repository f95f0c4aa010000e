import BrokerAPI
import Principals
import Synchronization

/// A broker that does what the request's method name says.
final class ScriptedDispatcher: Dispatcher {
  struct Seen: Sendable {
    var methods: [String] = []
    var sessions: [any Session] = []
    var callers: [Caller] = []
    var running = 0
    var mostRunning = 0
    var closed = 0
    /// By uid; without one: named.
    var classes: [UInt32: CallerClass] = [:]
    /// By unit of the system, before the uid.
    var classesOfUnits: [String: CallerClass] = [:]
  }

  static let head = Array(#"{"access_token":"at-1","token_type":"Bearer","expires_in":"#.utf8)
  static let tail = Array(#","scope":["openid"],"account":"alice","provider":"demo","generation":7}"#.utf8)

  private let body = CachedReply.Body(head: head, tail: tail)
  private let endless = CachedReply.Body(head: Array(#"{"access_token":"at-2"}"#.utf8), tail: [])
  let seen = Mutex(Seen())
  let gate = Gate()

  private final class Tokens: CachedTokens {
    let dispatcher: ScriptedDispatcher

    init(_ dispatcher: ScriptedDispatcher) { self.dispatcher = dispatcher }

    func reply(account: UnsafeRawBufferPointer, minTTL: Int64?, scopes: UnsafeRawBufferPointer?) -> CachedReply? {
      switch String(decoding: account, as: UTF8.self) {
      case "alice": CachedReply(body: dispatcher.body, expiresIn: minTTL ?? 3599)
      case "endless": CachedReply(body: dispatcher.endless, expiresIn: nil)
      default: nil
      }
    }
  }

  func callerClass(of principal: Principal) -> CallerClass {
    var unit: String?
    if case .process(let caller) = principal { unit = caller.unit }
    return seen.withLock { [unit] seen in
      unit.flatMap { seen.classesOfUnits[$0] } ?? seen.classes[principal.uid ?? .max] ?? .named
    }
  }

  func cachedTokens(for principal: Principal) -> any CachedTokens { Tokens(self) }

  func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> {
    seen.withLock { seen in
      seen.methods.append(request.method)
      seen.running += 1
      seen.mostRunning = max(seen.mostRunning, seen.running)
    }
    defer { seen.withLock { $0.running -= 1 } }
    switch request.method {
    case "echo": return .success(request.params ?? .null)
    case "token.get": return .success(Self.token)
    case "wait":
      await gate.wait()
      return .success("waited")
    case "fail": return .failure(RPCError(.loginRequired, "no"))
    case "large":
      return .success(.string(String(repeating: "x", count: Int(request.params?["bytes"]?.integer ?? 0))))
    case "who":
      guard case .process(let caller) = session.principal else {
        return .failure(RPCError(.notPermitted, "no process"))
      }
      seen.withLock { $0.callers.append(caller) }
      return .success(Self.json(caller))
    case "subscribe":
      seen.withLock { $0.sessions.append(session) }
      session.holdOpen()
      session.onClose { [self] in seen.withLock { $0.closed += 1 } }
      return .success("subscribed")
    default: return .failure(.methodNotFound(request.method, nearest: nil))
    }
  }

  private static let token: JSON = [
    "access_token": "at-1", "token_type": "Bearer", "expires_in": 3599, "scope": ["openid"], "account": "alice",
    "provider": "demo", "generation": 7,
  ]

  static func json(_ caller: Caller) -> JSON {
    [
      "uid": .integer(caller.uid), "gid": .integer(caller.gid), "pid": .integer(caller.pid),
      "groups": .array(caller.groups.sorted().map { .integer($0) }),
    ]
  }
}

/// Holds each waiting task until it is opened, permanently.
final class Gate: Sendable {
  private let state = Mutex<(isOpen: Bool, waiters: [CheckedContinuation<Void, Never>])>((false, []))

  func wait() async {
    await withCheckedContinuation { waiter in
      let isOpen = state.withLock { state in
        if !state.isOpen { state.waiters.append(waiter) }
        return state.isOpen
      }
      if isOpen { waiter.resume() }
    }
  }

  func open() {
    let waiters = state.withLock { state in
      defer { state = (true, []) }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }
}
