import Foundation
import Synchronization

extension DemoServer.Fault {
  /// The error that this fault tells of, for `oauth_error` and `error_200`.
  var failure: OAuthFailure {
    OAuthFailure(
      code: parameters.error ?? "invalid_grant", description: parameters.errorDescription ?? "a fault on demand",
      status: parameters.status ?? 400)
  }

  /// The answer that takes the place of the right one; nil for faults of other stages. At the authorization endpoint
  /// an OAuth error travels in the callback, which is that endpoint's own work.
  func replacement(at place: Place) -> Response? {
    switch kind {
    case .status:
      var response = Response(status: parameters.status ?? 503)
      if let retryAfter = parameters.retryAfter { response.headers.append(("Retry-After", retryAfter)) }
      if let body = parameters.body { response.body = .text(body, type: parameters.contentType ?? "text/plain") }
      return response
    case .oauthError: return place == .authorize ? nil : .failure(failure)
    case .html200: return .page(.problem("The service is being maintained."))
    case .error200:
      var response = Response.failure(failure)
      response.status = 200
      return response
    case .empty400: return Response(status: 400)
    case .redirect: return .redirect(to: parameters.location ?? "/elsewhere", status: parameters.status ?? 302)
    case .delay, .dropBeforeCommit, .dropAfterCommit, .truncated, .hugeBody, .slowBody, .formEncoded, .clockOffset,
      .wrongIssuer, .missingIss, .wrongIss, .unknownKid, .algNone, .badSignature, .wrongNonce, .wrongAudience,
      .expiresInString, .expiresInAbsent, .expiresInHuge, .expiresInNegative, .expiresInZero, .noRefreshToken,
      .emptyRefreshToken, .tokenType:
      return nil
    }
  }

  /// Changes the members of a token response that succeeded.
  func alter(_ response: inout Response) {
    guard kind.acts.stage == .members, response.status == 200, case .json(.object(var members)) = response.body else {
      return
    }
    switch kind {
    case .expiresInString: members["expires_in"] = .string(members["expires_in"]?.text ?? "3600")
    case .expiresInAbsent: members["expires_in"] = nil
    case .expiresInHuge: members["expires_in"] = 999_999_999_999_999
    case .expiresInNegative: members["expires_in"] = -1
    case .expiresInZero: members["expires_in"] = 0
    case .noRefreshToken: members["refresh_token"] = nil
    case .emptyRefreshToken: members["refresh_token"] = ""
    case .tokenType: members["token_type"] = .string(parameters.value ?? "mac")
    case .formEncoded:
      let pairs = members.sorted { $0.key < $1.key }.map { (name: $0.key, value: $0.value.string ?? $0.value.text) }
      response.body = .text(Form(pairs).encoded, type: "application/x-www-form-urlencoded")
      return
    case .delay, .dropBeforeCommit, .dropAfterCommit, .status, .oauthError, .html200, .error200, .empty400, .redirect,
      .truncated, .hugeBody, .slowBody, .clockOffset, .wrongIssuer, .missingIss, .wrongIss, .unknownKid, .algNone,
      .badSignature, .wrongNonce, .wrongAudience:
      return
    }
    response.body = .json(.object(members))
  }
}

/// What becomes of a request: no answer at all, or one, and how its bytes leave.
enum Outcome: Sendable {
  case dropped
  case answered(Response, Delivery)
}

/// How the bytes of an answer leave.
struct Delivery: Sendable {
  var date: Double
  /// Half of the body that Content-Length promises, then the end of the connection.
  var truncated = false
  /// Spaces after the body, which JSON allows: only a cap on the size can refuse it.
  var padding = 0
  /// Bytes per second; nil is as fast as it goes.
  var rate: Int?

  init(date: Double, faults: [DemoServer.Fault]) {
    self.date = date
    for fault in faults {
      switch fault.kind {
      case .truncated: truncated = true
      case .hugeBody: padding = fault.parameters.bytes ?? 8 * 1024 * 1024
      case .slowBody: rate = fault.parameters.bytesPerSecond ?? 20
      default: continue
      }
    }
  }
}

extension Provider {
  /// A request from its arrival to its answer, with the faults that hit it. Throws when it is cancelled while it waits.
  func outcome(of request: Request) async throws -> Outcome {
    let now = options.now()
    let route = route(of: request)
    guard case .endpoint(let place) = route else {
      let turn = Turn(request: request, faults: [], now: now)
      return .answered(answer(turn, at: route), Delivery(date: now.timeIntervalSince1970, faults: []))
    }
    let faults = ledger.withLock { ledger in
      ledger.counts[place.rawValue, default: 0] += 1
      return ledger.takeFaults(at: place)
    }
    guard !faults.contains(where: { $0.kind == .dropBeforeCommit }) else { return .dropped }
    try await wait(for: faults, .before)
    var response = faults.replacement(at: place, .before)
    if response == nil {
      var right = answer(Turn(request: request, faults: faults, now: options.now()), at: route)
      for fault in faults { fault.alter(&right) }
      response = faults.replacement(at: place, .after) ?? right
    }
    try await wait(for: faults, .after)
    guard let response, !faults.contains(where: { $0.kind == .dropAfterCommit }) else { return .dropped }
    let claimed = Turn(request: request, faults: faults, now: options.now()).claimedNow
    return .answered(response, Delivery(date: claimed.timeIntervalSince1970, faults: faults))
  }

  private func wait(for faults: [DemoServer.Fault], _ moment: DemoServer.Fault.Moment) async throws {
    for fault in faults where fault.kind == .delay && fault.parameters.moment == moment {
      try await Task.sleep(for: .seconds(max(0, fault.parameters.seconds ?? 1)))
    }
  }
}

extension [DemoServer.Fault] {
  fileprivate func replacement(at place: DemoServer.Fault.Place, _ moment: DemoServer.Fault.Moment) -> Response? {
    lazy.filter { $0.parameters.moment == moment }.compactMap { $0.replacement(at: place) }.first
  }
}
