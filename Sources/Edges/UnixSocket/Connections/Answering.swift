import BrokerAPI
import Principals

/// Answers the lines that are not answered from the cache, from their bytes to the reply's.
final class Answering: Sendable {
  static let shuttingDown = RPCError(.shuttingDown, "the broker is stopping")

  private static let unread = RPCError(
    .overloaded, "too many replies are unread", hint: "Read the replies of your connections, then ask again.")

  /// For an invalid line. If it was read late, the delay is reported instead.
  private static func refusal(_ error: RPCError, _ line: LineQueue.Line) -> RPCError {
    guard line.isLate else { return error }
    return RPCError(
      .rateLimited,
      "\(error.message). The lines of \(line.connection.share.text) are read late: they are too many or too large",
      hint: "Send valid requests, and wait for their answers. `held_back` in `broker.status` counts what is read late.")
  }

  private let dispatcher: any Dispatcher
  private let table: ConnectionTable
  private let lines: LineQueue

  init(dispatcher: any Dispatcher, load: SocketServer.Load) {
    self.dispatcher = dispatcher
    table = load.table
    lines = load.lines
  }

  // MARK: for the loop

  /// See ``LineQueue/add(_:of:isLate:reserved:)``.
  func enqueue(
    _ line: UnsafeRawBufferPointer, of connection: Connection, isLate: Bool, reserved: inout Int
  ) -> LineQueue.Admission {
    let admission = lines.add(line, of: connection, isLate: isLate, reserved: &reserved)
    if admission == .taken { startWorker() }
    return admission
  }

  func reserve(for connection: Connection) -> Int { lines.reserve(for: connection) }
  func giveBack(_ reserved: Int, of share: Share) { lines.giveBack(reserved, of: share) }
  func passOn(_ share: Share) { lines.passOn(share) }
  func remove(_ connection: Connection) { lines.remove(connection) }

  // MARK: the workers

  private func startWorker() {
    guard lines.acquireWorker() else { return }
    Task { [self] in
      var done: LineQueue.Line?
      while let line = lines.next(after: done) {
        answer(line)
        done = line
        // The line's request is at the broker by now: a holder with many has no more than one a worker in its queue.
        await dispatcher.yieldTurn()
      }
    }
  }

  /// Parses it, and runs its requests until they wait: refusals are answered here, and its values are freed before the
  /// next line is parsed.
  private func answer(_ line: LineQueue.Line) {
    let connection = line.connection
    guard connection.isOpen else { return end(line) { connection.finish(nil, places: 1) { [] } } }
    var values = 0
    switch Incoming.parse(line.bytes, values: &values) {
    case .unreadable(let error):
      let reply = RPCReply.failure(.null, Self.refusal(error, line)).line()
      end(line) { connection.finish(reply, places: 1) { reply } }
    case .single(let message):
      let end = begin(line, values)
      reply(to: message, line) { reply in
        end { connection.finish(reply?.line(), places: 1) { reply.map { Self.unread($0).line() } ?? [] } }
      }
    case .batch(let messages):
      let end = begin(line, values)
      Task.immediate { [self] in
        let places = 1 + connection.reserve(upTo: messages.count - 1)
        let replies = await replies(to: messages, line, atATime: places)
        end {
          connection.finish(replies.isEmpty ? nil : RPCReply.batchLine(replies), places: places) {
            RPCReply.batchLine(replies.map(Self.unread))
          }
        }
      }
    }
  }

  /// The line's requests run from now on. The returned closure is called at their end, and calls `finish`, which sends the
  /// replies.
  private func begin(_ line: LineQueue.Line, _ values: Int) -> @Sendable (_ finish: () -> Void) -> Void {
    let (connection, charge) = (line.connection, line.charge)
    let parsed = LineQueue.parsed(line, values: values)
    lines.begin(parsed: parsed, of: connection.share)
    return { [self] finish in
      lines.answered(connection, charge: charge, parsed: parsed)
      finish()
      startWorker()
    }
  }

  private func end(_ line: LineQueue.Line, _ finish: () -> Void) {
    lines.answered(line.connection, charge: line.charge)
    finish()
  }

  // MARK: one line

  private static func unread(_ reply: RPCReply) -> RPCReply {
    switch reply {
    case .success(let id, _), .failure(let id, _): .failure(id, unread)
    }
  }

  /// In the order of the requests; those without a reply are left out (JSON-RPC 2.0 §6).
  private func replies(
    to messages: [IncomingMessage], _ line: LineQueue.Line, atATime places: Int
  ) async -> [RPCReply] {
    await withTaskGroup(of: (Int, RPCReply?).self) { group in
      var replies = [RPCReply?](repeating: nil, count: messages.count)
      for (index, message) in messages.enumerated() {
        if index >= places, let (done, reply) = await group.next() { replies[done] = reply }
        group.addTask {
          await withCheckedContinuation { waiter in
            self.reply(to: message, line) { waiter.resume(returning: (index, $0)) }
          }
        }
      }
      for await (done, reply) in group { replies[done] = reply }
      return replies.compactMap { $0 }
    }
  }

  /// - Parameter use: called once, with nil after a notification.
  private func reply(
    to message: IncomingMessage, _ line: LineQueue.Line, then use: @escaping @Sendable (RPCReply?) -> Void
  ) {
    switch message {
    case .invalid(let id, let error): use(.failure(id, Self.refusal(error, line)))
    case .call(let request, let id): call(request, line.connection) { use(RPCReply(id, $0)) }
    case .notification(let request): call(request, line.connection) { _ in use(nil) }
    }
  }

  private func call(
    _ request: RPCRequest, _ connection: Connection, then use: @escaping @Sendable (PendingCalls.Outcome) -> Void
  ) {
    guard !table.isDraining else { return use(.failure(Self.shuttingDown)) }
    connection.pending.begin({ [dispatcher] in await dispatcher.respond(to: request, session: connection) }, then: use)
  }
}
