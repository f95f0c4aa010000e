import Foundation
import NIOHTTP1

/// One HTTP request, complete.
struct Request: Sendable {
  var method: HTTPMethod
  var path: String
  var query: Form
  var headers: HTTPHeaders
  var body: String

  init(head: HTTPRequestHead, body: String) {
    let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    method = head.method
    path = parts.first.map { Form.decode($0) } ?? "/"
    query = Form(encoded: parts.count > 1 ? parts[1] : "")
    headers = head.headers
    self.body = body
  }

  /// The body of a form post, empty for any other.
  var form: Form {
    let type = headers.first(name: "content-type")?.lowercased() ?? ""
    return type.hasPrefix("application/x-www-form-urlencoded") ? Form(encoded: body) : Form()
  }

  /// The parameters of an endpoint that takes both GET and POST.
  var parameters: Form {
    method == .POST ? form : query
  }

  /// What follows `scheme` in the Authorization header; schemes are case-insensitive (RFC 9110 §11.1).
  func credentials(scheme: String) -> String? {
    guard let header = headers.first(name: "authorization"), header.lowercased().hasPrefix(scheme.lowercased() + " ")
    else { return nil }
    return header.dropFirst(scheme.count + 1).trimmingCharacters(in: .whitespaces)
  }
}

/// One HTTP response, its body still a value, so that a fault can change its members.
struct Response: Sendable {
  enum Body: Sendable {
    case empty
    case json(DemoServer.JSON)
    case text(String, type: String)

    var type: String? {
      switch self {
      case .empty: nil
      case .json: "application/json"
      case .text(_, let type): type
      }
    }

    var text: String {
      switch self {
      case .empty: ""
      case .json(let json): json.text
      case .text(let text, _): text
      }
    }
  }

  var status = 200
  var headers: [(name: String, value: String)] = []
  var body: Body = .empty

  static func json(_ json: DemoServer.JSON, status: Int = 200) -> Self {
    Self(status: status, body: .json(json))
  }

  static func redirect(to location: String, status: Int = 302) -> Self {
    Self(status: status, headers: [("Location", location)])
  }

  /// An error of the token, revocation or introspection endpoint (RFC 6749 §5.2).
  static func failure(_ failure: OAuthFailure) -> Self {
    guard !failure.code.isEmpty else { return Self(status: failure.status) }
    var response = Self.json(
      ["error": .string(failure.code), "error_description": .string(failure.description)], status: failure.status)
    if failure.code == "invalid_client" {
      response.headers.append(("WWW-Authenticate", "Basic realm=\"demo\", charset=\"UTF-8\""))
    }
    return response
  }
}

/// An error of the OAuth protocol: its registered code, a text for the developer, the HTTP status. Without a code it
/// is an answer without a body.
struct OAuthFailure: Error {
  var code: String
  var description: String
  var status = 400

  static func invalidRequest(_ description: String) -> Self { .init(code: "invalid_request", description: description) }
  static func invalidGrant(_ description: String) -> Self { .init(code: "invalid_grant", description: description) }
  static func serverError(_ description: String) -> Self {
    .init(code: "server_error", description: description, status: 500)
  }
  static func invalidClient(_ description: String) -> Self {
    .init(code: "invalid_client", description: description, status: 401)
  }
}

/// A control request that was not understood.
struct ControlFailure: Error {
  var description: String

  init(_ description: String) {
    self.description = description
  }
}
