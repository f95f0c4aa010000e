import Foundation
import NIOHTTP1
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
    case .useDPoPNonce:
      var response = Response.nonceNeeded(at: place)
      response.headers.append(("DPoP-Nonce", Base64URL.random()))
      return response
    case .dropboxError:
      let tag = parameters.value ?? "expired_access_token"
      guard tag == "too_many_requests" else { return .dropbox(tag) }
      return .dropboxLimit(seconds: Int(parameters.seconds ?? 3), header: parameters.retryAfter)
    default:
      return nil
    }
  }

  /// Changes the members of an answer that succeeded.
  func alter(_ response: inout Response) {
    guard kind.acts.stage == .members, (200...201).contains(response.status),
      case .json(.object(var members)) = response.body
    else { return }
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
    case .noIDToken: members["id_token"] = nil
    case .noIssuedTokenType: members["issued_token_type"] = nil
    case .intervalAbsent: members["interval"] = nil
    case .activeString: members["active"] = .string(members["active"]?.text ?? "true")
    default:
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
  /// Headers that are left out, in lower case.
  var hidden: Set<String> = []

  init(date: Double, faults: [DemoServer.Fault]) {
    self.date = date
    for fault in faults {
      switch fault.kind {
      case .truncated: truncated = true
      case .hugeBody: padding = fault.parameters.bytes ?? 8 * 1024 * 1024
      case .slowBody: rate = fault.parameters.bytesPerSecond ?? 20
      case .noNonceHeader: hidden.insert("dpop-nonce")
      default: continue
      }
    }
  }
}

extension Provider {
  /// A request from its arrival to its answer, with the faults that hit it. Throws when it is cancelled while it waits.
  func outcome(of raw: Request) async throws -> Outcome {
    let now = options.now()
    let request = readable(raw)
    let route = route(of: request)
    guard case .endpoint(let place) = route else {
      let plain = Delivery(date: now.timeIntervalSince1970, faults: [])
      if route == .control(Self.logoutCommand) { return .answered(await sendLogout(request), plain) }
      return .answered(answer(Turn(request: request, faults: [], now: now, place: .any), at: route), plain)
    }
    let (faults, releases) = ledger.withLock { ledger in
      ledger.counts[place.rawValue, default: 0] += 1
      ledger.note(raw, at: place)
      return (ledger.takeFaults(at: place), ledger.releases)
    }
    guard !faults.contains(where: { $0.kind == .dropBeforeCommit }) else { return .dropped }
    try await wait(for: faults, .before, after: releases)
    var response = faults.replacement(at: place, .before)
    if response == nil {
      var right = answer(Turn(request: request, faults: faults, now: options.now(), place: place), at: route)
      for fault in faults { fault.alter(&right) }
      response = faults.replacement(at: place, .after) ?? right
    }
    try await wait(for: faults, .after, after: releases)
    guard let response, !faults.contains(where: { $0.kind == .dropAfterCommit }) else { return .dropped }
    let claimed = Turn(request: request, faults: faults, now: options.now(), place: place).claimedNow
    return .answered(response, Delivery(date: claimed.timeIntervalSince1970, faults: faults))
  }

  /// A JSON object as the form with its members, where the settings allow that.
  private func readable(_ request: Request) -> Request {
    guard request.headers.first(name: "content-type")?.lowercased().hasPrefix("application/json") ?? false,
      Self.takesForms(request.path),
      ledger.withLock({ $0.settings.token.jsonBodies }),
      case .object(let members)? = DemoServer.JSON(text: request.body)
    else { return request }
    var request = request
    request.headers.replaceOrAdd(name: "content-type", value: "application/x-www-form-urlencoded")
    request.body = Form(members.map { ($0.key, $0.value.string ?? $0.value.text) }).encoded
    return request
  }

  /// Whether the bodies of an address are forms by right.
  private static func takesForms(_ path: String) -> Bool {
    [
      "/token", "/revoke", "/introspect", "/par", "/device_authorization", "/oauth2/token", "/oauth/v2/token",
      "/oauth/v2/par",
    ].contains(path)
  }

  private func wait(
    for faults: [DemoServer.Fault], _ moment: DemoServer.Fault.Moment, after releases: Int
  ) async throws {
    for fault in faults where fault.kind == .delay && fault.parameters.moment == moment {
      let end = ContinuousClock.now + .seconds(max(0, fault.parameters.seconds ?? 1))
      while ledger.withLock({ $0.releases }) == releases, case let left = end - ContinuousClock.now, left > .zero {
        try await Task.sleep(for: min(left, Limits.delayStep))
      }
    }
  }
}

extension [DemoServer.Fault] {
  fileprivate func replacement(at place: DemoServer.Fault.Place, _ moment: DemoServer.Fault.Moment) -> Response? {
    lazy.filter { $0.parameters.moment == moment }.compactMap { $0.replacement(at: place) }.first
  }
}
