/// An authorised call, made by the broker (RFC 6750 §2.1, RFC 9449 §7).
public enum RequestSend: TokenRelease {
  public static let name = "request.send"
  public static let access = Access.use
  public static let summary =
    "Sends a request with the account's token, only to the provider's own servers: the caller never sees the token. "
    + "A token that is refused is refreshed once, and the request sent once more."
  public static let errors: [ErrorReason] = ProviderQuestion.errors

  public struct Params: Codable, Sendable, Equatable {
    public var account: String
    public var method: String
    public var url: String
    public var headers: [String: String]?
    public var body: String?
    public var body_base64: String?
    public var timeout: Double?

    public init(
      account: String, method: String, url: String, headers: [String: String]? = nil, body: String? = nil,
      body_base64: String? = nil, timeout: Double? = nil
    ) {
      self.account = account
      self.method = method
      self.url = url
      self.headers = headers
      self.body = body
      self.body_base64 = body_base64
      self.timeout = timeout
    }
  }

  public struct Result: Codable, Sendable, Equatable {
    public var status: Int64
    public var headers: [String: String]
    public var body: String?
    public var body_base64: String?

    public init(status: Int64, headers: [String: String], body: String? = nil, body_base64: String? = nil) {
      self.status = status
      self.headers = headers
      self.body = body
      self.body_base64 = body_base64
    }
  }

  public static let paramDocs = [
    "account": "The account's name.",
    "method": "The HTTP method, such as `GET`.",
    "url":
      "The address: absolute, or relative to the provider's `api_base`. Only the origins of `api_base` and `api_origins` are allowed, and no path that servers read differently: with a step “.” or “..” in any encoding, or with control characters.",
    "headers":
      "Headers to send, by name; `Authorization`, `Cookie`, `Host`, `Accept-Encoding`, `Range` and those of the connection are refused.",
    "body": "The body, as text.",
    "body_base64": "The body, in base64 (RFC 4648 §4), instead of `body`.",
    "timeout": "Seconds to wait for the answer before `timed_out`; at most 300. Default 30.",
  ]
  public static let resultDocs = [
    "status": "The status of the answer, also of an error; a redirect is not followed.",
    "headers": "Its headers, names in lower case, several of one name joined by `, `; without `set-cookie`.",
    "body": "The body, if it is text in UTF-8.",
    "body_base64": "The body in base64, if it is not text.",
  ]
  public static let example = MethodExample(
    params: ["account": "work", "method": "GET", "url": "/me", "headers": ["Accept": "application/json"]],
    result: [
      "status": 200, "headers": ["content-type": "application/json"], "body": "{\"name\":\"Ada Lovelace\"}",
    ])
}
