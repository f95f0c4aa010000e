import BrokerAPI
import HTTPServer
import NIOCore
import NIOHTTP1

/// An error of the broker as the answer to a JSON-RPC request. Clients of the Model Context Protocol show such an error
/// to the user; after an HTTP error they end the session, and after 401 they begin their own sign-in.
enum JSONRPCReply {
  /// Requests of a batch that are answered.
  private static let longestBatch = 64
  /// JSON-RPC 2.0 §5.1.
  private static let internalError: Int64 = -32603

  /// Whether the request may be one, by its head.
  static func mayAnswer(_ head: HTTPRequestHead) -> Bool {
    guard head.method == .POST, let type = head.headers.first(name: "Content-Type") else { return false }
    return type.prefix { $0 != ";" }.lowercased().filter { $0 != " " } == "application/json"
  }

  /// The error in the form of JSON-RPC; nil: the body is not a request, or a notification, which has no answer.
  static func error(_ reply: HTTPReply, to body: [UInt8]) -> HTTPReply? {
    guard let request = try? JSON.parse(body) else { return nil }
    let answer: JSON
    if let batch = request.array {
      let errors = batch.prefix(longestBatch).compactMap(id).map { error(reply, id: $0) }
      guard !errors.isEmpty else { return nil }
      answer = .array(errors)
    } else {
      guard let id = id(request) else { return nil }
      answer = error(reply, id: id)
    }
    var made = HTTPReply(.ok, type: "application/json", answer.text() + "\n")
    made.isLast = reply.isLast
    return made
  }

  /// The id of a call: a string or a number (JSON-RPC 2.0 §4).
  private static func id(_ request: JSON) -> JSON? {
    guard request["jsonrpc"]?.string == "2.0", request["method"]?.string != nil, let id = request["id"] else {
      return nil
    }
    switch id {
    case .string, .number: return id
    default: return nil
    }
  }

  private static func error(_ reply: HTTPReply, id: JSON) -> JSON {
    let own = (try? JSON.parse(Array(reply.body.readableBytesView))) ?? [:]
    let reason = own["error"]?.string
    let code = reason.flatMap(ErrorReason.init(rawValue:)).map { Int64($0.code) } ?? internalError
    var data: [JSON.Member] = []
    if let reason { data.append(.init(name: "reason", value: .string(reason))) }
    if let hint = own["hint"]?.string { data.append(.init(name: "hint", value: .string(hint))) }
    if let wait = reply.headers.first(name: "Retry-After").flatMap({ Int64($0) }) {
      data.append(.init(name: "retry_after", value: .number(String(wait))))
    }
    // Clients show only the message.
    let words = [own["message"]?.string, own["hint"]?.string].compactMap(\.self).joined(separator: ". ")
    return .object([
      .init(name: "jsonrpc", value: "2.0"), .init(name: "id", value: id),
      .init(
        name: "error",
        value: .object([
          .init(name: "code", value: .number(String(code))), .init(name: "message", value: .string("grantd: " + words)),
          .init(name: "data", value: .object(data)),
        ])),
    ])
  }
}
