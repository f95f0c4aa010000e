import BrokerAPI
import Principals

/// Backups on their way through the socket, in parts. Each belongs to the connection that began it, and is forgotten with
/// that or after a while without a call.
struct Transfers {
  /// At once, of all callers together: each may hold as many bytes as a backup has.
  static let most = 2
  /// Bytes of a whole backup.
  static let bytes = 256 << 20
  /// Bytes of a part: with base64 it fits a line of the socket.
  static let part = 128 << 10
  /// Between two calls, during which an approval may be needed.
  static let idle = Duration.seconds(300)

  enum Content {
    /// The backup is being made or opened.
    case busy
    case outgoing(DeferredDeallocation<[UInt8]>)
    case incoming([UInt8], size: Int)
    /// Opened, and not yet applied.
    case opened(DeferredDeallocation<Backup>)

    func free() {
      switch self {
      case .outgoing(let file): file.free()
      case .opened(let backup): backup.free()
      case .busy, .incoming: break
      }
    }
  }

  private struct Transfer {
    let owner: ObjectIdentifier
    /// Held, so that no other has its name.
    let session: any Session
    var content: Content
    var touchedAt: Duration
  }

  private var all: [String: Transfer] = [:]

  var count: Int { all.count }

  mutating func begin(
    _ id: String, _ content: Content, for session: any Session, at now: Duration
  ) throws(RPCError) {
    removeIdle(at: now)
    guard all.count < Self.most else {
      throw RPCError(
        .overloaded, "\(Self.most) backups are on their way already", hint: "Try again when they are done.")
    }
    all[id] = Transfer(owner: ObjectIdentifier(session), session: session, content: content, touchedAt: now)
  }

  /// Nil: there is none of that name for this connection.
  mutating func content(of id: String, for session: any Session, at now: Duration) -> Content? {
    removeIdle(at: now)
    guard let transfer = all[id], transfer.owner == ObjectIdentifier(session) else { return nil }
    all[id]?.touchedAt = now
    return transfer.content
  }

  /// How many bytes have come, of how many. Who asks for the content itself makes the next part a copy of all.
  mutating func progress(of id: String, for session: any Session, at now: Duration) -> (count: Int, size: Int)? {
    guard case .incoming(let whole, let size) = content(of: id, for: session, at: now) else { return nil }
    return (whole.count, size)
  }

  /// False: it no longer exists, and neither does the connection.
  @discardableResult
  mutating func set(_ id: String, _ content: Content, at now: Duration) -> Bool {
    guard all[id] != nil else {
      content.free()
      return false
    }
    all[id]?.content = content
    all[id]?.touchedAt = now
    return true
  }

  /// Nothing of it is in memory twice while it grows.
  mutating func append(_ bytes: [UInt8], to id: String) {
    guard var transfer = all.removeValue(forKey: id), case .incoming(var whole, let size) = transfer.content else {
      return
    }
    transfer.content = .busy
    whole += bytes
    transfer.content = .incoming(whole, size: size)
    all[id] = transfer
  }

  mutating func end(_ id: String) { all.removeValue(forKey: id)?.content.free() }

  private mutating func remove(where isOver: (Transfer) -> Bool) {
    for (id, transfer) in all where isOver(transfer) { end(id) }
  }

  /// The rules are others: who was allowed a backup may not be any more.
  mutating func removeOutgoing() {
    remove { if case .outgoing = $0.content { true } else { false } }
  }

  mutating func removeAll(of owner: ObjectIdentifier) { remove { $0.owner == owner } }

  /// Work in progress ends on its own.
  mutating func removeIdle(at now: Duration) {
    remove { transfer in
      if case .busy = transfer.content { false } else { now - transfer.touchedAt > Self.idle }
    }
  }
}
