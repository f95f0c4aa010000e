import Glibc

/// The process at the other end of a connection, as the kernel said when it connected; nothing that it says itself.
public struct Caller: Sendable, Hashable {
  public var uid: UInt32
  public var gid: UInt32
  public var groups: [UInt32]
  /// The process that connected; it may have ended since.
  public var pid: Int32
  /// The system's unit that it runs in, such as `mail-sync.service`, as its control group says; nil where that could not be
  /// had.
  public var unit: String?
  /// The unit of its user's own manager, if it runs in one. Any user may have one of any name: it has a meaning only
  /// together with ``uid``.
  public var userUnit: String?
  /// The path of its executable; nil if the kernel does not show it to the broker.
  public var executable: String?
  /// The name of the program that executed it, if it is the helper. For people only: a process chooses its name.
  public var parent: String?
  /// The holder that this caller's resources are charged to.
  public var holder: Holder
  /// Its user id is in a range that `/etc/subuid` gives to a user.
  public var isSubordinate = false

  /// - Parameter holder: nil: derived from the user id.
  public init(
    uid: UInt32, gid: UInt32, groups: [UInt32], pid: Int32, unit: String? = nil, userUnit: String? = nil,
    executable: String? = nil, holder: Holder? = nil
  ) {
    self.holder = holder ?? Holder(uid: uid)
    self.unit = unit
    self.userUnit = userUnit
    self.executable = executable
    self.uid = uid
    self.gid = gid
    self.groups = groups
    self.pid = pid
  }
}

/// One connection, as the dispatcher sees it.
public protocol Session: AnyObject, Sendable {
  var caller: Caller { get }
  /// The peer, as its listener identifies it. Without a listener's identification: a process on a Unix socket.
  var principal: Principal { get }
  /// Queues a notification to this connection. False: the connection was closed, or its queue is full and it is closed
  /// now.
  func notify(method: String, params: JSON) -> Bool
  /// Whether the client is still connected and reads its replies: otherwise no long work begins for it.
  var isReading: Bool { get }
  /// The connection may be silent from now on for as long as its client likes: it was promised notifications.
  func holdOpen()
  /// Runs once when the connection ends; at once where it has ended.
  func onClose(_ action: @escaping @Sendable () -> Void)
  /// The caller's rights were decided: from now on its request may wait, and takes no time from others.
  func decided()
}

extension Session {
  public func decided() {}
}

/// One call, already a valid JSON-RPC request object (JSON-RPC 2.0 §4).
public struct RPCRequest: Sendable {
  public var method: String
  /// An object, an array, or absent.
  public var params: JSON?
  public var isNotification: Bool

  public init(method: String, params: JSON?, isNotification: Bool) {
    self.method = method
    self.params = params
    self.isNotification = isNotification
  }
}

/// The socket server's interface to the broker.
public protocol Dispatcher: Sendable {
  /// What share of the socket's budgets a new connection has. Called on the event loop that accepted it: must not block.
  func callerClass(of principal: Principal) -> CallerClass

  /// What answers the plain `token.get` of one connection, which stays on the event loop that asks for it.
  func cachedTokens(for principal: Principal) -> any CachedTokens

  /// All other requests. Runs in a separate task; ends within the method's deadline.
  func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError>

  /// Returns when earlier requests have had their turn at the broker. Waiting for it before the next request keeps the
  /// broker's own queue, which does not know holders, short.
  func settle() async
}

extension Dispatcher {
  public func settle() async { await Task.yield() }
}

/// The fast path of one connection: the facts about its caller are kept.
public protocol CachedTokens: AnyObject {
  /// A cached reply to a plain `token.get`, or nil: use ``Dispatcher/respond(to:session:)``. Called on the event loop
  /// that read the request: must not block, and costs less than a microsecond.
  ///
  /// - Parameters:
  ///   - account: the name in UTF-8.
  ///   - scopes: the array of scopes as written; nil: not given.
  func reply(
    account: UnsafeRawBufferPointer, minTTL: Int64?, scopes: UnsafeRawBufferPointer?
  ) -> CachedReply?
}

extension CachedTokens {
  public func reply(account: String, minTTL: Int64? = nil, scopes: String? = nil) -> CachedReply? {
    var (account, list) = (account, scopes ?? "")
    return account.withUTF8 { account in
      list.withUTF8 { list in
        reply(
          account: UnsafeRawBufferPointer(account), minTTL: minTTL,
          scopes: scopes == nil ? nil : UnsafeRawBufferPointer(list))
      }
    }
  }
}

/// A rendered `token.get` result with one hole for `expires_in`:
/// `head` + decimal digits + `tail`, or `head` alone where the expiry is unknown. Head begins with `{`, and the whole is
/// the JSON of ``TokenGet/Result``.
public struct CachedReply: Sendable {
  public var body: Body
  public var expiresIn: Int64?

  /// Made once per token; shared by all replies. It holds the token, and is overwritten at its end.
  public final class Body: Sendable {
    /// Written in `init` and in `deinit` alone, so that threads may read it.
    nonisolated(unsafe) private let bytes: UnsafeMutableRawBufferPointer
    private let headCount: Int

    public init(head: [UInt8], tail: [UInt8]) {
      bytes = .allocate(byteCount: head.count + tail.count, alignment: 1)
      bytes.copyBytes(from: head)
      UnsafeMutableRawBufferPointer(rebasing: bytes[head.count...]).copyBytes(from: tail)
      headCount = head.count
    }

    deinit {
      // A plain assignment to memory that is given back may be left out by the compiler.
      if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
      bytes.deallocate()
    }

    /// Without a copy.
    public func withBytes<Result>(
      _ body: (_ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer) -> Result
    ) -> Result {
      body(headBytes, tailBytes)
    }

    private var headBytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[..<headCount]) }
    private var tailBytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[headCount...]) }

    public var head: [UInt8] { Array(headBytes) }
    public var tail: [UInt8] { Array(tailBytes) }
  }

  public init(body: Body, expiresIn: Int64?) {
    self.body = body
    self.expiresIn = expiresIn
  }
}
