import Broker
import NIOHTTP1

/// The answer to a provider whose logout request is refused (OpenID Connect Back-Channel Logout §2.8).
struct Refusal: Equatable {
  /// Characters of a description.
  static let descriptionLimit = 600
  /// Seconds.
  static let retryAfter = 5

  var status: HTTPResponseStatus
  /// An error code of RFC 6749 §5.2.
  var error = "invalid_request"
  var description: String
  /// In addition to those of every answer.
  var extraHeaders: [String: String] = [:]

  /// The text has no character that RFC 6749 §5.2 excludes, so JSON needs no escapes.
  var json: String {
    #"{"error":"\#(Self.printable(error))","error_description":"\#(Self.printable(description))"}"#
  }

  static func printable(_ text: String) -> String {
    var result = ""
    var count = 0
    for scalar in text.unicodeScalars {
      guard count < descriptionLimit else { return result + "..." }
      count += 1
      switch scalar {
      case "\"", "\u{201c}", "\u{201d}", "\u{2018}", "\u{2019}": result += "'"
      case "\n", "\r", "\t": result += " "
      case "\\": result += "/"
      case " "..."~": result.unicodeScalars.append(scalar)
      default: result += "?"
      }
    }
    return result
  }
}

extension Refusal {
  /// The endpoint's answer to a request with any path.
  init(_ page: Page) {
    self.init(status: page.status, description: page.heading)
  }

  static let unknownProvider = Refusal(status: .notFound, description: "there is no provider of this name")

  static let notPost = Refusal(
    status: .methodNotAllowed, description: "a logout token is sent with POST", extraHeaders: ["Allow": "POST"])

  static let fromBrowser = Refusal(status: .forbidden, description: "a browser has nothing to send here")

  static let notOneHost = Refusal(status: .badRequest, description: "the request has no Host header, or two of them")

  static let fragment = Refusal(status: .badRequest, description: "the request's target has a fragment")

  static let notForm = Refusal(
    status: .badRequest, description: "the Content-Type is not application/x-www-form-urlencoded")

  static let empty = Refusal(status: .badRequest, description: "the request has no body")

  static let tooLarge = Refusal(status: .payloadTooLarge, description: "the request's body is too large")

  static let unavailable = Refusal(
    status: .serviceUnavailable, error: "temporarily_unavailable",
    description: "the logout token cannot be looked at now", extraHeaders: ["Retry-After": "\(retryAfter)"])

  static let busy = Refusal(
    status: .serviceUnavailable, error: "temporarily_unavailable", description: "too many logout requests at once",
    extraHeaders: ["Retry-After": "\(retryAfter)"])

  static let tooSlow = Refusal(
    status: .serviceUnavailable, error: "temporarily_unavailable",
    description: "the logout token was not looked at in time", extraHeaders: ["Retry-After": "\(retryAfter)"])
}
