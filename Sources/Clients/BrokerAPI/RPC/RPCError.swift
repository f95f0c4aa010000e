/// The provider's error response (RFC 6749 §5.2), bounded and with control characters escaped.
public struct OAuthDetail: Codable, Sendable, Equatable {
  public var error: String
  public var error_description: String?
  public var error_uri: String?

  public init(error: String, error_description: String? = nil, error_uri: String? = nil) {
    self.error = error
    self.error_description = error_description
    self.error_uri = error_uri
  }
}

/// An error of the socket, as a JSON-RPC error object will say it.
public struct RPCError: Error, Sendable, Equatable {
  public var code: Int
  public var message: String
  /// Absent for the errors of JSON-RPC itself.
  public var reason: ErrorReason?
  /// In an error of a newer broker: a reason that this version does not name.
  public var unknownReason: String?
  public var hint: String?
  /// Seconds after which trying again makes sense.
  public var retry_after: Double?
  public var oauth: OAuthDetail?
  public var detail: String?
  /// What is wrong with each field that was sent.
  public var fields: [String: [String]]?

  public init(
    _ reason: ErrorReason, _ message: String, hint: String? = nil, retryAfter: Double? = nil,
    oauth: OAuthDetail? = nil, detail: String? = nil, fields: [String: [String]]? = nil
  ) {
    self.fields = fields
    self.code = reason.code
    self.message = message
    self.reason = reason
    self.hint = hint ?? reason.defaultHint
    self.retry_after = retryAfter
    self.oauth = oauth
    self.detail = detail
  }

  private init(code: Int, message: String, hint: String?) {
    self.code = code
    self.message = message
    self.hint = hint
  }

  public static func parseError(_ message: String) -> RPCError {
    RPCError(code: -32700, message: "parse error: \(message)", hint: "Send one JSON text per line, in UTF-8.")
  }
  public static func invalidRequest(_ message: String) -> RPCError {
    RPCError(code: -32600, message: "invalid request: \(message)", hint: "See docs/rpc.md for the form of a request.")
  }
  public static func methodNotFound(_ name: String, nearest: String?) -> RPCError {
    RPCError(
      code: -32601, message: "method not found: \(name)",
      hint: nearest.map { "Did you mean `\($0)`?" } ?? "`grantctl call rpc.discover` lists the methods.")
  }
  public static func invalidParams(_ message: String, hint: String? = nil) -> RPCError {
    RPCError(code: -32602, message: "invalid params: \(message)", hint: hint)
  }
  public static func internalError(_ message: String) -> RPCError {
    RPCError(code: -32603, message: "internal error: \(message)", hint: "See the broker's log; please report this.")
  }
}
