import BrokerAPI
import NIOHTTP1
import Testing

@testable import Loopback

/// What clients of the HTTP endpoints conclude from a status or code decides between waiting and a new sign-in.
@Suite struct ErrorStatusTests {
  private func status(_ reason: ErrorReason) -> ErrorStatus { ErrorStatus(RPCError(reason, "m")) }

  @Test("no error is 401, or a success: clients would start their own sign-in", arguments: ErrorReason.allCases)
  func errors(_ reason: ErrorReason) {
    let found = status(reason)
    for code in [found.forward.code, found.cloud.code] { #expect(code >= 400 && code != 401 && code != 407) }
  }

  @Test("only an ended login has clients ask the user to sign in", arguments: ErrorReason.allCases)
  func logins(_ reason: ErrorReason) {
    #expect((status(reason).token == .invalidGrant) == (reason == .loginRequired))
  }

  @Test("what passes by itself, and only that, is worth another attempt", arguments: ErrorReason.allCases)
  func attempts(_ reason: ErrorReason) {
    let passes: Set<ErrorReason> = [
      .rateLimited, .timedOut, .temporarilyUnavailable, .overloaded, .storeFailure, .shuttingDown, .locked,
    ]
    let found = status(reason)
    #expect((found.token == .temporarilyUnavailable) == passes.contains(reason))
    #expect([429, 503].contains(found.cloud.code) == passes.contains(reason))
    #expect([429, 503, 504].contains(found.forward.code) == passes.contains(reason))
  }

  @Test(
    "the refusals",
    arguments: [
      (.notPermitted, .forbidden, .unauthorizedClient), (.unknownAccount, .notFound, .invalidClient),
      (.scopeNotGranted, .badGateway, .invalidScope), (.rateLimited, .tooManyRequests, .temporarilyUnavailable),
      (.timedOut, .gatewayTimeout, .temporarilyUnavailable), (.providerError, .badGateway, .serverError),
    ] as [(ErrorReason, HTTPResponseStatus, TokenRefusal.Code)])
  func refusals(_ reason: ErrorReason, _ forward: HTTPResponseStatus, _ token: TokenRefusal.Code) {
    #expect(status(reason).forward == forward && status(reason).token == token)
  }

  @Test("without a reason: a wrong parameter is the client's error, all else the broker's")
  func withoutReason() {
    let parameter = ErrorStatus(.invalidParams("m"))
    #expect(parameter.forward == .badRequest && parameter.cloud == .badRequest && parameter.token == .invalidRequest)
    let other = ErrorStatus(.methodNotFound("m", nearest: nil))
    #expect(other.forward == .badGateway && other.cloud == .internalServerError && other.token == .serverError)
  }
}
