/// Connections by descriptor, of which the lowest free number is used again.
struct OpenConnections<Handler> {
  private var handlers: [(token: LoopToken, handler: Handler)?] = []
  private var generation: UInt32 = 0

  /// The token of a new connection. Of a generation that no earlier one of this descriptor has, except after four
  /// billion others.
  mutating func token(for socket: Int32) -> LoopToken {
    generation = generation == .max ? 1 : generation + 1
    return LoopToken(socket, generation: generation)
  }

  mutating func add(_ handler: Handler, _ token: LoopToken) {
    while handlers.count <= Int(token.descriptor) { handlers.append(nil) }
    handlers[Int(token.descriptor)] = (token, handler)
  }

  /// Nil: the connection was closed.
  subscript(token: LoopToken) -> Handler? {
    let index = Int(token.descriptor)
    guard index < handlers.count, let entry = handlers[index], entry.token == token else { return nil }
    return entry.handler
  }

  mutating func remove(_ token: LoopToken) { handlers[Int(token.descriptor)] = nil }

  var all: [Handler] { handlers.compactMap { $0?.handler } }

  /// The connection with the earliest turn by `since` among the connections that `isOne` accepts.
  func first(where isOne: (Handler) -> Bool, since: (Handler) -> UInt64?) -> Handler? {
    var first: (handler: Handler, since: UInt64)?
    for case let (_, handler)? in handlers where isOne(handler) {
      if let turn = since(handler), turn < first?.since ?? .max { first = (handler, turn) }
    }
    return first?.handler
  }
}
