import Broker
import Foundation
import OAuth
import Synchronization

/// A provider's network as a script: each purpose has its answer, can be held back, and is written down.
final class ScriptedTransport: Transport {
  typealias Purpose = HTTPRequest.Purpose
  typealias Answer = @Sendable (HTTPRequest) throws(TransportError) -> HTTPResponse

  private struct Held {
    var purpose: Purpose
    var late: LateAnswer?
    /// The error that ends the request instead of an answer, if any.
    var continuation: CheckedContinuation<TransportError?, Never>
  }

  private struct State {
    var answers: [Purpose: Answer] = [:]
    var holding: Set<Purpose> = []
    var held: [Held] = []
    var requests: [HTTPRequest] = []
    var pools: [ConnectionPool] = []
    var scopes: [AddressScope] = []
    var inFlight = 0
    var mostInFlight = 0
  }

  private let state = Mutex(State())

  init() {
    answer(.token, TokenServer.rotating)
    answer(.revocation) { _ in HTTPResponse(status: 200) }
    answer(.discovery) { _ in reply(TokenServer.metadata) }
    answer(.keys) { _ in reply(#"{"keys":[]}"#) }
  }

  func answer(_ purpose: Purpose, _ answer: @escaping Answer) { state.withLock { $0.answers[purpose] = answer } }

  /// From now on, requests wait for ``release(_:)``.
  func hold(_ purpose: Purpose) { state.withLock { _ = $0.holding.insert(purpose) } }

  /// Lets all go on that wait, and all that come.
  func release(_ purpose: Purpose) {
    let released = state.withLock { state in
      state.holding.remove(purpose)
      defer { state.held.removeAll { $0.purpose == purpose } }
      return state.held.filter { $0.purpose == purpose }
    }
    for request in released { request.continuation.resume(returning: nil) }
  }

  /// The time limit of waiting requests: they end, except requests whose late answer is awaited.
  func timeOut(_ purpose: Purpose) {
    let late = state.withLock { $0.held.filter { $0.purpose == purpose && $0.late != nil } }
    for request in late { request.late?.isOverdue(TransportError(.timedOut, "no answer in time")) }
    fail(purpose) { $0.late == nil }
  }

  /// Late answers are no longer awaited.
  func giveUp(_ purpose: Purpose) { fail(purpose) { _ in true } }

  private func fail(_ purpose: Purpose, _ isMeant: (Held) -> Bool) {
    let failed = state.withLock { state in
      let failed = state.held.filter { $0.purpose == purpose && isMeant($0) }
      state.held.removeAll { $0.purpose == purpose && isMeant($0) }
      return failed
    }
    for request in failed { request.continuation.resume(returning: TransportError(.timedOut, "no answer in time")) }
  }

  /// Lets the first or the last one go on that waits.
  func releaseOne(_ purpose: Purpose, last: Bool = false) {
    let released = state.withLock { state in
      let held = state.held.indices.filter { state.held[$0].purpose == purpose }
      return (last ? held.last : held.first).map { state.held.remove(at: $0) }
    }
    released?.continuation.resume(returning: nil)
  }

  func requests(_ purpose: Purpose) -> [HTTPRequest] {
    state.withLock { $0.requests.filter { $0.purpose == purpose } }
  }
  /// All of them, in their order.
  var requests: [HTTPRequest] { state.withLock { $0.requests } }
  /// Over which pools they went, in their order.
  func pools(_ purpose: Purpose) -> [ConnectionPool] {
    state.withLock { state in
      zip(state.requests, state.pools).filter { $0.0.purpose == purpose }.map(\.1)
    }
  }
  func count(_ purpose: Purpose) -> Int { requests(purpose).count }
  func held(_ purpose: Purpose) -> Int { state.withLock { $0.held.filter { $0.purpose == purpose }.count } }
  var mostInFlight: Int { state.withLock { $0.mostInFlight } }

  /// The next look-ups find these; later ones find a public address.
  func find(_ scopes: [AddressScope]) { state.withLock { $0.scopes = scopes } }

  func scope(of url: URL) async throws(TransportError) -> AddressScope {
    state.withLock { $0.scopes.isEmpty ? .global : $0.scopes.removeFirst() }
  }

  func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    state.withLock { state in
      state.requests.append(request)
      state.pools.append(pool)
      state.inFlight += 1
      state.mostInFlight = max(state.mostInFlight, state.inFlight)
    }
    defer { state.withLock { $0.inFlight -= 1 } }
    let failure = await withCheckedContinuation { continuation in
      let goesOn = state.withLock { state in
        guard state.holding.contains(request.purpose) else { return true }
        state.held.append(Held(purpose: request.purpose, late: late, continuation: continuation))
        return false
      }
      if goesOn { continuation.resume(returning: nil) }
    }
    if let failure { throw failure }
    guard let answer = state.withLock({ $0.answers[request.purpose] }) else {
      throw TransportError(.notSent, "no script for \(request.purpose)")
    }
    return try answer(request)
  }
}

/// What a token endpoint may say.
enum TokenServer {
  static let metadata = """
    {"issuer":"https://id.example","authorization_endpoint":"https://id.example/authorize",\
    "token_endpoint":"https://id.example/token","revocation_endpoint":"https://id.example/revoke"}
    """

  /// Rotates: `work-r1` gives `work-a2` and `work-r2`; the code `work` gives `work-a1` and `work-r1`.
  static let rotating: ScriptedTransport.Answer = { request in granted(request, lifetime: 3600) }

  static func granted(_ request: HTTPRequest, lifetime: Int?, rotates: Bool = true) -> HTTPResponse {
    let spent = request.form["refresh_token"] ?? "\(request.form["code"] ?? "nobody")-r0"
    let parts = spent.components(separatedBy: "-r")
    let next = (Int(parts.last ?? "") ?? 0) + 1
    let members = [
      #""access_token":"\#(parts[0])-a\#(next)","token_type":"Bearer""#, lifetime.map { "\"expires_in\":\($0)" },
      rotates ? #""refresh_token":"\#(parts[0])-r\#(next)""# : nil,
    ]
    return reply("{\(members.compactMap(\.self).joined(separator: ","))}")
  }

  static func refused(_ code: String, status: Int = 400) -> ScriptedTransport.Answer {
    { _ in reply(#"{"error":"\#(code)"}"#, status: status) }
  }

  static func failing(_ kind: TransportError.Kind) -> ScriptedTransport.Answer {
    { _ throws(TransportError) in throw TransportError(kind, "scripted") }
  }
}

/// A JSON answer.
func reply(_ body: String, status: Int = 200, headers: [HTTPRequest.Header] = []) -> HTTPResponse {
  HTTPResponse(status: status, headers: [.init("Content-Type", "application/json")] + headers, body: Data(body.utf8))
}

extension HTTPRequest {
  /// The members of a form without escapes that matter here.
  var form: [String: String] {
    var members: [String: String] = [:]
    for pair in String(decoding: body ?? Data(), as: UTF8.self).split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1).map(String.init)
      members[parts[0]] = parts.count == 2 ? parts[1].removingPercentEncoding : ""
    }
    return members
  }
}
