import Broker
import BrokerAPI
import HTTPServer
import NIOHTTP1

extension HTTPReply {
  /// An error of the broker. Never 401: clients would begin their own sign-in.
  ///
  /// - Parameter refused: the provider's API returned the error.
  init(_ error: RPCError, refused: Bool = false) {
    let status = ErrorStatus(error).forward
    self.init(
      refused ? .badGateway : status, error: error.reason?.rawValue ?? "bad_request", error.message,
      hint: error.hint ?? error.reason?.defaultHint)
    if status == .serviceUnavailable || status == .tooManyRequests {
      headers.add(name: "Retry-After", value: String(max(1, Int((error.retry_after ?? 5).rounded(.up)))))
    }
  }

  /// The provider's API cannot be reached, or its answer is incomplete.
  init(_ error: TransportError) {
    let hint = "See whether the provider's API works, and api_base and api_origins in its section."
    switch error.kind {
    case .timedOut: self.init(.gatewayTimeout, error: "timeout", error.message, hint: hint)
    case .notSent, .lost, .tooLarge, .unreadable:
      self.init(.badGateway, error: "bad_gateway", error.message, hint: hint)
    }
  }
}

// Errors of the broker itself.
extension ForwardedRequest {
  static var stopped: HTTPReply {
    HTTPReply(
      .requestTimeout, error: "timeout", "the request's body stopped before its end",
      hint: "Send it without pauses of more than 30 seconds."
    ).last()
  }

  static var tooLong: HTTPReply {
    HTTPReply(
      .payloadTooLarge, error: "body_too_large", "a rule depends on the body of this request, and it is too long",
      hint: "Bodies have 1 MiB at most then."
    ).last()
  }

  static var overloaded: HTTPReply {
    HTTPReply(
      .serviceUnavailable, error: "overloaded", "the bodies of your other requests take all the room that you have",
      hint: "Send the request again when they have ended."
    ).last()
  }

  static var unkept: HTTPReply {
    var reply = HTTPReply(
      .badGateway, error: "token_refused",
      "the token was refused and is renewed; the body was not kept to be sent again", hint: "Send the request again.")
    reply.headers.add(name: "Retry-After", value: "0")
    return reply.last()
  }
}
