extension RPCError {
  /// The error object (JSON-RPC 2.0 §5.1): `code`, `message`, and `data` with the known members of `reason`, `hint`,
  /// `retry_after`, `oauth`, `detail` and `fields`.
  public var json: JSON {
    let data = JSON(
      encoding: ErrorData(
        reason: reason?.rawValue ?? unknownReason, hint: hint, retry_after: retry_after, oauth: oauth, detail: detail,
        fields: fields))
    var members = [
      JSON.Member(name: "code", value: .integer(code)), JSON.Member(name: "message", value: .string(message)),
    ]
    if data != .object([]) { members.append(JSON.Member(name: "data", value: data)) }
    return .object(members)
  }

  /// Reads an error object, for clients; nil if the value is not one. Unexpected members of `data` are nil.
  public init?(json: JSON) {
    guard let code = json["code"]?.integer, let code = Int(exactly: code), let message = json["message"]?.string else {
      return nil
    }
    self.code = code
    self.message = message
    let data = json["data"] ?? .null
    let name = data["reason"]?.string
    reason = name.flatMap { ErrorReason(rawValue: $0) }
    unknownReason = reason == nil ? name : nil
    hint = data["hint"]?.string
    retry_after = data["retry_after"]?.double
    oauth = data["oauth"].flatMap { try? $0.decode(OAuthDetail.self) }
    detail = data["detail"]?.string
    fields = data["fields"].flatMap { try? $0.decode([String: [String]].self) }
  }
}

/// `data` of an error object.
struct ErrorData: Codable, Sendable {
  var reason: String?
  var hint: String?
  var retry_after: Double?
  var oauth: OAuthDetail?
  var detail: String?
  var fields: [String: [String]]?
}
