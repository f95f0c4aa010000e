import BrokerAPI

/// The comfortable road: one line in a task of its own, from its bytes to the reply's.
struct Answering: Sendable {
  let dispatcher: any Dispatcher
  let table: ConnectionTable

  static let shuttingDown = RPCError(.shuttingDown, "the broker is stopping")

  private static let unread = RPCError(
    .overloaded, "too many replies are unread", hint: "Read the replies of your connections, then ask again.")

  /// The connection counted one request for the line already.
  func start(_ line: [UInt8], on connection: Connection) {
    Task {
      switch Incoming.parse(line) {
      case .single(let message):
        let reply = await reply(to: message, connection)
        connection.finish(reply?.line(), places: 1) { reply.map { Self.unread($0).line() } ?? [] }
      case .unreadable(let error):
        let line = RPCReply.failure(.null, error).line()
        connection.finish(line, places: 1) { line }
      case .batch(let messages):
        let places = 1 + connection.reserve(upTo: messages.count - 1)
        let replies = await replies(to: messages, connection, atATime: places)
        connection.finish(replies.isEmpty ? nil : RPCReply.batchLine(replies), places: places) {
          RPCReply.batchLine(replies.map(Self.unread))
        }
      }
    }
  }

  private static func unread(_ reply: RPCReply) -> RPCReply {
    switch reply {
    case .success(let id, _), .failure(let id, _): .failure(id, unread)
    }
  }

  /// In the order of the requests; those without a reply are left out (JSON-RPC 2.0 §6).
  private func replies(
    to messages: [IncomingMessage], _ connection: Connection, atATime places: Int
  ) async -> [RPCReply] {
    await withTaskGroup(of: (Int, RPCReply?).self) { group in
      var replies = [RPCReply?](repeating: nil, count: messages.count)
      for (index, message) in messages.enumerated() {
        if index >= places, let (done, reply) = await group.next() { replies[done] = reply }
        group.addTask { (index, await reply(to: message, connection)) }
      }
      for await (done, reply) in group { replies[done] = reply }
      return replies.compactMap { $0 }
    }
  }

  private func reply(to message: IncomingMessage, _ connection: Connection) async -> RPCReply? {
    switch message {
    case .invalid(let id, let error): return .failure(id, error)
    case .call(let request, let id): return RPCReply(id, await result(of: request, connection))
    case .notification(let request):
      _ = await result(of: request, connection)
      return nil
    }
  }

  private func result(of request: RPCRequest, _ connection: Connection) async -> Result<JSON, RPCError> {
    guard !table.isDraining else { return .failure(Self.shuttingDown) }
    return await connection.pending.answer { await dispatcher.respond(to: request, session: connection) }
  }
}
