/// A fault of a request to a provider, and whether the provider acted on the request before.
enum Fault: String, CaseIterable {
  /// Nothing went out.
  case connectionRefused
  /// Went out, and the connection broke before the provider read it.
  case lostBefore
  /// The provider acted, and its answer was lost.
  case lostAfter
  case silentBefore, silentAfter
  case unavailable, unavailableWithRetryAfter, tooManyRequests, badGateway
  /// A 500 that may mean either.
  case errorBefore, errorAfter
  case pageAt200, pageAt400, pageAt200After
  /// 200 with `error`.
  case errorAt200
  case truncatedAfter, wrongTypeAfter, tooLargeAfter
  case invalidClient
  /// A correct answer that comes late.
  case slow
  /// An answer with the new refresh token, and with a member that is odd.
  case odd
  case serverError, temporarilyUnavailable

  /// The provider acted on the request.
  var acts: Bool {
    switch self {
    case .lostAfter, .silentAfter, .errorAfter, .pageAt200After, .truncatedAfter, .wrongTypeAfter, .tooLargeAfter,
      .slow, .odd:
      true
    case .connectionRefused, .lostBefore, .silentBefore, .unavailable, .unavailableWithRetryAfter, .tooManyRequests,
      .badGateway, .errorBefore, .pageAt200, .pageAt400, .errorAt200, .invalidClient, .serverError,
      .temporarilyUnavailable:
      false
    }
  }

  /// The answer arrives with all its members.
  var isAnswered: Bool { self == .slow || self == .odd }

  /// The provider names a wait, or makes the broker rest.
  var asksToWait: Bool {
    switch self {
    case .unavailableWithRetryAfter, .tooManyRequests, .invalidClient: true
    case .connectionRefused, .lostBefore, .lostAfter, .silentBefore, .silentAfter, .unavailable, .badGateway,
      .errorBefore, .errorAfter, .pageAt200, .pageAt400, .pageAt200After, .errorAt200, .truncatedAfter,
      .wrongTypeAfter, .tooLargeAfter, .slow, .odd, .serverError, .temporarilyUnavailable:
      false
    }
  }

  /// The faults that all clients see in an outage.
  static let outages: [Fault] = [
    .connectionRefused, .lostBefore, .silentBefore, .unavailable, .badGateway, .errorBefore,
  ]
}

/// For a time, requests to the provider meet one of these with a given probability.
struct FaultWindow {
  var from: Moment
  var until: Moment
  var kinds: [Fault]
  var share: Double
  /// All requests fail, and nothing of it acts.
  var isOutage: Bool { share >= 1 && kinds.allSatisfy { !$0.acts } }
}
