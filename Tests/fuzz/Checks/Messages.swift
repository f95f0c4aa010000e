import BrokerAPI
import Foundation

extension Target {
  /// A line of the socket: JSON-RPC, the parameters of every method, and the fast scan of `token.get`.
  static let rpc = Target(name: "rpc", longest: 4096) { bytes in
    try checkScan(bytes)
    switch Incoming.parse(bytes) {
    case .unreadable(let error): try checkReply(.failure(.null, error))
    case .single(let message): try check(message)
    case .batch(let messages):
      try expect((1...Incoming.maximumBatch).contains(messages.count), "a batch of \(messages.count)")
      for message in messages { try check(message) }
    }
    if let message = try? ServerMessage.parse(bytes) { try check(message) }
  }

  /// Each input that the scan accepts is accepted by the parser, with the same meaning.
  private static func checkScan(_ line: [UInt8]) throws {
    guard let found = line.withUnsafeBytes({ PlainTokenGet.scan($0) }) else { return }
    guard case .single(.call(let request, let id)) = Incoming.parse(line), request.method == TokenGet.name else {
      throw Broken(description: "the scan accepts an input that the parser refuses")
    }
    try expect(id.json.serialized() == Array(line[found.id]), "the scan has another id")
    let params = try decodeParams(TokenGet.self, from: request.params)
    let scopes = try found.scopes.map { try JSON.parse(Array(line[$0])).decode([String].self) }
    let expected = TokenGet.Params(
      account: decoded(line[found.account]), scopes: scopes, min_ttl: found.minTTL.map { Double($0) },
      timeout: found.timeout.map { Double($0) })
    try expect(params == expected, "the scan reads \(expected), the parser \(params)")
  }

  private static func check(_ message: IncomingMessage) throws {
    switch message {
    case .invalid(let id, let error): try checkReply(.failure(id, error))
    case .call(let request, let id):
      try check(request)
      try checkReply(.success(id, request.params ?? .null))
      let again = OutgoingCall(method: request.method, params: request.params, id: id).line()
      guard case .single(.call(let read, let readID)) = Incoming.parse(again.dropLast()) else {
        throw Broken(description: "a call that was written again is none")
      }
      try expect(
        read.method == request.method && read.params == request.params && readID == id, "a call changed on its way")
    case .notification(let request): try check(request)
    }
  }

  private static func check(_ request: RPCRequest) throws {
    if Methods.named(request.method) == nil {
      try checkReply(.failure(.null, Methods.notFound(request.method)))
    }
    for method in Methods.all { try checkParams(method, request.params) }
  }

  private static func checkParams<M: RPCMethod>(_ method: M.Type, _ params: JSON?) throws {
    let read: M.Params
    do throws(RPCError) {
      read = try decodeParams(method, from: params)
    } catch {
      return try checkReply(.failure(.null, error))
    }
    let written = JSON(encoding: read)
    let again = JSON(encoding: try decodeParams(method, from: written))
    try expect(again == written, "the parameters of \(M.name) change when they are written")
    if let seconds = written["timeout"]?.double { _ = try? Timeouts.duration(seconds) }
  }

  /// One line, that a client reads with the same meaning, and whose length the request limits.
  private static func checkReply(_ reply: RPCReply) throws {
    let line = reply.line()
    try expect(line.last == 0x0A && !line.dropLast().contains { $0 < 0x20 }, "a reply is not one line")
    switch (reply, try ServerMessage.parse(line)) {
    case (.success(let id, let result), .reply(let readID, .success(let read))):
      try expect(id == readID && result == read, "a result changed on its way")
    case (.failure(let id, let error), .reply(let readID, .failure(let read))):
      try expect(id == readID && error.code == read.code && error.message == read.message, "an error changed")
      try expect(error.message.utf8.count <= 2048, "an error's message has \(error.message.utf8.count) bytes")
    default: throw Broken(description: "a reply is read as something else")
    }
  }

  private static func check(_ message: ServerMessage) throws {
    guard case .reply(let id, .failure(let error)) = message else { return }
    let again = try ServerMessage.parse(RPCReply.failure(id, error).line())
    guard case .reply(let readID, .failure(let read)) = again else {
      throw Broken(description: "an error that was written again is none")
    }
    try expect(readID == id && read == error, "an error changed when it was written")
  }
}
