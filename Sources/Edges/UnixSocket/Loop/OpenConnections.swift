import Principals

/// Connections by descriptor, of which the lowest free number is used again.
///
/// Not generic: each eviction looks at all connections, which takes long in a debug build for elements of an unknown type.
struct OpenConnections {
  private var handlers: [ConnectionHandler?] = []
  private var generation: UInt32 = 0

  /// The token of a new connection. Of a generation that no earlier one of this descriptor has, except after four
  /// billion others.
  mutating func token(for socket: Int32) -> LoopToken {
    generation = generation == .max ? 1 : generation + 1
    return LoopToken(socket, generation: generation)
  }

  mutating func add(_ handler: ConnectionHandler) {
    let index = Int(handler.token.descriptor)
    while handlers.count <= index { handlers.append(nil) }
    handlers[index] = handler
  }

  /// Nil: the connection was closed.
  subscript(token: LoopToken) -> ConnectionHandler? {
    let index = Int(token.descriptor)
    guard index < handlers.count, let handler = handlers[index], handler.token == token else { return nil }
    return handler
  }

  mutating func remove(_ token: LoopToken) { handlers[Int(token.descriptor)] = nil }

  var all: [ConnectionHandler] { handlers.compactMap { $0 } }

  /// The connection with the earliest turn by `since` among the connections whose shares `isOne` accepts.
  func first(where isOne: (Share) -> Bool, since: (ConnectionHandler) -> UInt64?) -> ConnectionHandler? {
    var first: (handler: ConnectionHandler, since: UInt64)?
    for case let handler? in handlers where isOne(handler.share) {
      if let turn = since(handler), turn < first?.since ?? .max { first = (handler, turn) }
    }
    return first?.handler
  }
}
