/// One member of a client's line.
public enum IncomingMessage: Sendable {
  case call(RPCRequest, id: RPCID)
  /// A request without an id: it is executed and never answered, for any result (JSON-RPC 2.0 §4.1).
  case notification(RPCRequest)
  /// Answered with the error. The id is null if none could be read.
  case invalid(id: RPCID, RPCError)
}

/// The content of one line of a client.
public enum Incoming: Sendable {
  case single(IncomingMessage)
  /// At least one and at most ``maximumBatch`` members.
  case batch([IncomingMessage])
  /// No JSON. Answered with the error and the id null.
  case unreadable(RPCError)

  /// Requests in one batch (JSON-RPC 2.0 §6).
  public static let maximumBatch = 64
  /// Bytes of one line, with its newline.
  public static let maximumLine = 256 * 1024
  /// JSON values of one line. They take up to fifty times their bytes: this bounds them to about 1 MB.
  public static let maximumValues = 16 * 1024

  private static let options = {
    var options = JSON.Options()
    options.values = maximumValues
    options.elements = maximumBatch
    return options
  }()

  public static func parse(_ line: some Collection<UInt8>) -> Incoming {
    var values = 0
    return parse(line, values: &values)
  }

  /// - Parameter values: how many JSON values were built.
  public static func parse(_ line: some Collection<UInt8>, values: inout Int) -> Incoming {
    let reading = JSON.read(line, options)
    values = reading.values
    let json: JSON
    switch reading.outcome {
    case .success(let value): json = value
    case .failure(let error):
      return switch error.exceeded {
      case nil, .bytes: .unreadable(.parseError("\(error)"))
      case .elements:
        .single(.invalid(id: .null, .invalidRequest("a batch of more than \(maximumBatch) requests")))
      case .values:
        .single(.invalid(id: .null, .invalidRequest("a line of more than \(maximumValues) JSON values")))
      }
    }
    guard case .array(let members) = json else { return .single(IncomingMessage(json)) }
    if members.isEmpty { return .single(.invalid(id: .null, .invalidRequest("an empty batch"))) }
    return .batch(members.map { IncomingMessage($0) })
  }
}

extension IncomingMessage {
  /// Any JSON value; one that is not a request object (JSON-RPC 2.0 §4) is invalid. Undefined members are ignored.
  public init(_ json: JSON) {
    guard case .object = json else {
      self = .invalid(id: .null, .invalidRequest("expected an object, got \(json.kind)"))
      return
    }
    var id: RPCID?
    if let member = json["id"] {
      id = RPCID(json: member)
      if id == nil {
        self = .invalid(id: .null, .invalidRequest("id: expected a string, a number or null, got \(member.kind)"))
        return
      }
    }
    do {
      let request = try RPCRequest(envelope: json, isNotification: id == nil)
      self = id.map { .call(request, id: $0) } ?? .notification(request)
    } catch {
      self = .invalid(id: id ?? .null, error)
    }
  }
}

extension RPCRequest {
  fileprivate init(envelope json: JSON, isNotification: Bool) throws(RPCError) {
    guard json["jsonrpc"] == .string("2.0") else { throw .invalidRequest("jsonrpc: must be \"2.0\"") }
    guard let member = json["method"] else { throw .invalidRequest("method: missing") }
    guard let method = member.string else {
      throw .invalidRequest("method: expected a string, got \(member.kind)")
    }
    let params = json["params"]
    switch params {
    case nil, .object, .array: break
    case .some(let other): throw .invalidRequest("params: expected an object or an array, got \(other.kind)")
    }
    self.init(method: method, params: params, isNotification: isNotification)
  }
}

/// The answer to one call (JSON-RPC 2.0 §5).
public enum RPCReply: Sendable, Equatable {
  case success(RPCID, JSON)
  case failure(RPCID, RPCError)

  public init(_ id: RPCID, _ result: Result<JSON, RPCError>) {
    switch result {
    case .success(let json): self = .success(id, json)
    case .failure(let error): self = .failure(id, error)
    }
  }

  public var json: JSON {
    switch self {
    case .success(let id, let result): ["jsonrpc": "2.0", "id": id.json, "result": result]
    case .failure(let id, let error): ["jsonrpc": "2.0", "id": id.json, "error": error.json]
    }
  }

  /// The reply as a line of its own, with the newline.
  public func line() -> [UInt8] { json.serializedLine() }

  /// The replies to a batch on one line, with the newline; nothing at all where there are none (JSON-RPC 2.0 §6).
  public static func batchLine(_ replies: [RPCReply]) -> [UInt8] {
    replies.isEmpty ? [] : JSON.array(replies.map(\.json)).serializedLine()
  }
}
