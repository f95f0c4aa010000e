import BrokerAPI
import NIOHTTP1

/// The status of a broker's error in each HTTP protocol. One table without a default: a new reason needs a row.
struct ErrorStatus {
  /// The status for `/forward`. Never 401: clients would start their own sign-in.
  var forward: HTTPResponseStatus
  /// The status for the cloud endpoints, whose clients try again if it is 503.
  var cloud: HTTPResponseStatus
  /// The code for the token endpoint (RFC 6749 §5.2). `invalid_grant` has clients ask their user to sign in, so only
  /// an ended login is that.
  var token: TokenRefusal.Code

  init(_ error: RPCError) {
    guard let reason = error.reason else {
      let isParameter = error.code == -32602
      self.init(
        isParameter ? .badRequest : .badGateway, isParameter ? .badRequest : .internalServerError,
        isParameter ? .invalidRequest : .serverError)
      return
    }
    switch reason {
    case .notPermitted: self.init(.forbidden, .forbidden, .unauthorizedClient)
    case .loginRequired: self.init(.badGateway, .forbidden, .invalidGrant)
    case .unknownAccount: self.init(.notFound, .notFound, .invalidClient)
    case .scopeNotGranted: self.init(.badGateway, .badRequest, .invalidScope)
    case .rateLimited: self.init(.tooManyRequests, .tooManyRequests, .temporarilyUnavailable)
    case .timedOut: self.init(.gatewayTimeout, .serviceUnavailable, .temporarilyUnavailable)
    case .temporarilyUnavailable, .overloaded, .storeFailure, .shuttingDown, .locked:
      self.init(.serviceUnavailable, .serviceUnavailable, .temporarilyUnavailable)
    case .unsupportedByProvider: self.init(.forbidden, .forbidden, .serverError)
    case .unknownProvider, .unknownLogin, .loginDenied, .loginCancelled, .loginExpired, .loginInProgress,
      .invalidCallback, .providerMisconfigured, .providerError, .registrationRejected, .invalidConfiguration,
      .invalidBackup, .keyNotReplaceable:
      self.init(.badGateway, .internalServerError, .serverError)
    }
  }

  private init(_ forward: HTTPResponseStatus, _ cloud: HTTPResponseStatus, _ token: TokenRefusal.Code) {
    self.forward = forward
    self.cloud = cloud
    self.token = token
  }
}

extension TokenRefusal.Code {
  /// RFC 6749 §5.2.
  var status: HTTPResponseStatus {
    switch self {
    case .invalidClient: .unauthorized
    case .temporarilyUnavailable: .serviceUnavailable
    case .serverError: .internalServerError
    case .invalidRequest, .invalidGrant, .unauthorizedClient, .unsupportedGrantType, .invalidScope, .invalidTarget:
      .badRequest
    }
  }
}
