/// A request on its way to the broker (JSON-RPC 2.0 §4).
public struct OutgoingCall: Sendable {
  public var method: String
  /// An object, or absent.
  public var params: JSON?
  /// Absent: a notification, which is never answered.
  public var id: RPCID?

  public init(method: String, params: JSON? = nil, id: RPCID?) {
    self.method = method
    self.params = params
    self.id = id
  }

  public var json: JSON {
    var members = [JSON.Member(name: "jsonrpc", value: "2.0")]
    if let id { members.append(JSON.Member(name: "id", value: id.json)) }
    members.append(JSON.Member(name: "method", value: .string(method)))
    if let params { members.append(JSON.Member(name: "params", value: params)) }
    return .object(members)
  }

  /// With the newline.
  public func line() -> [UInt8] { json.serializedLine() }
}

/// A broker's message: an answer or a notification.
public enum ServerMessage: Sendable {
  case reply(id: RPCID, Result<JSON, RPCError>)
  /// `params` is null if there are none.
  case notification(method: String, params: JSON)

  /// One line from the broker. Throws where it is neither (JSON-RPC 2.0 §4.1, §5).
  public static func parse(_ line: some Collection<UInt8>) throws(JSONError) -> ServerMessage {
    let json = try JSON.parse(line)
    guard json["jsonrpc"] == "2.0" else { throw JSONError("no JSON-RPC 2.0 message", at: 0) }
    if let method = json["method"]?.string {
      return .notification(method: method, params: json["params"] ?? .null)
    }
    guard let id = json["id"].flatMap({ RPCID(json: $0) }) else { throw JSONError("no id in the reply", at: 0) }
    switch (json["result"], json["error"].map { RPCError(json: $0) }) {
    case (let result?, nil): return .reply(id: id, .success(result))
    case (nil, .some(let error?)): return .reply(id: id, .failure(error))
    default: throw JSONError("neither a result nor an error in the reply", at: 0)
    }
  }
}
