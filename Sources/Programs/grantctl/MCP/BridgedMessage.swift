import BrokerAPI
import CredentialHelpers

/// A message of JSON-RPC as the bridge has to know it: the rest passes unread.
struct BridgedMessage: Equatable {
  enum Kind: Equatable {
    /// With the id as it is written.
    case request(id: JSON, method: String)
    case notification(method: String)
    case response(id: JSON)
    case batch
    /// No message that the bridge can read.
    case other
  }

  var kind: Kind
  /// The version that the message itself names (revision 2026-07-28); nil: that of the session.
  var version: String?
  /// What the message is about, for the header `Mcp-Name`.
  var name: String?
  /// In a notification of a cancellation: the request.
  var cancelled: JSON?
  /// In the answer to `initialize`: the version that was agreed.
  var agreedVersion: String?
  var isError = false

  /// Requests that change nothing at the server: sent again if an answer is lost.
  private static let repeatable: Set = [
    "initialize", "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list",
    "prompts/get", "completion/complete", "server/discover", "logging/setLevel",
  ]
  private static let names = ["tools/call": "name", "prompts/get": "name", "resources/read": "uri"]
  private static let versionMember = "io.modelcontextprotocol/protocolVersion"

  init(_ bytes: [UInt8]) {
    kind = .other
    guard let json = try? JSON.parse(bytes) else { return }
    if json.array != nil { kind = .batch }
    guard json.members != nil else { return }
    let (id, method, params) = (json["id"], json["method"]?.string, json["params"])
    version = params?["_meta"]?[Self.versionMember]?.string
    if let method {
      name = Self.names[method].flatMap { params?[$0]?.string }
      if let id, id != .null { kind = .request(id: id, method: method) } else { kind = .notification(method: method) }
      if method == "notifications/cancelled" { cancelled = params?["requestId"] }
    } else if let id, json["result"] != nil || json["error"] != nil {
      kind = .response(id: id)
      agreedVersion = json["result"]?["protocolVersion"]?.string
      isError = json["error"] != nil
    }
  }

  var requestID: JSON? { if case .request(let id, _) = kind { id } else { nil } }
  var method: String? {
    switch kind {
    case .request(_, let method), .notification(let method): method
    case .response, .batch, .other: nil
    }
  }
  var isRepeatable: Bool { method.map(Self.repeatable.contains) ?? false }

  /// A value for the header `Mcp-Name`; what a header cannot hold is in base64.
  static func headerValue(_ text: String) -> String {
    let isPlain =
      text.utf8.allSatisfy { (0x20...0x7E).contains($0) } && text.first != " " && text.last != " "
      && !text.hasPrefix("=?base64?")
    return isPlain ? text : "=?base64?\(Base64.encoded(text.utf8))?="
  }

  /// An error as the answer to a request; nil: there is none to answer.
  static func error(_ code: Int64, _ message: String, hint: String?, reason: String? = nil, id: JSON?) -> [UInt8] {
    var data: [JSON.Member] = []
    if let reason { data.append(.init(name: "reason", value: .string(reason))) }
    if let hint { data.append(.init(name: "hint", value: .string(hint))) }
    // Clients show only the message.
    let text = "grantd: " + [message, hint].compactMap(\.self).joined(separator: ". ")
    return JSON.object([
      .init(name: "jsonrpc", value: "2.0"), .init(name: "id", value: id ?? .null),
      .init(
        name: "error",
        value: .object([
          .init(name: "code", value: .integer(code)), .init(name: "message", value: .string(text)),
          .init(name: "data", value: .object(data)),
        ])),
    ]).serialized()
  }
}
