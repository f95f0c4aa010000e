import Broker
import Foundation
import Grants
import OAuth
import Principals
import Providers

/// A provider with a ledger of each refresh token's use.
final class FleetProvider: @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  struct Session {
    let account: String
    var newest = 1
    var usedAt: [Int: Moment] = [:]
    var isEnded = false
  }

  let rotation: Rotation
  private unowned let fleet: Fleet
  private(set) var sessions: [Session] = []

  init(_ rotation: Rotation, _ fleet: Fleet) {
    self.rotation = rotation
    self.fleet = fleet
  }

  var settings: ProviderSettings {
    var settings = ProviderSettings(name: Fleet.provider, kind: .oauth2, displayName: "fleet", clientID: "client")
    settings.server.endpoints[.authorization] = "https://id.example/authorize"
    settings.server.endpoints[.token] = "https://id.example/token"
    settings.access.scopes = ["read"]
    settings.refresh.rotation = rotation
    return settings
  }

  /// The session of a refresh token, or of an access token.
  func session(_ token: Secret?) -> Int? {
    token?.exposed.drop { $0 == "a" }.split(separator: "-").first.flatMap { Int($0) }
  }

  /// Whether it is the newest refresh token of its session.
  func isNewest(_ token: Secret?) -> Bool {
    session(token).map { token == Secret("\($0)-\(sessions[$0].newest)") && !sessions[$0].isEnded } ?? false
  }

  func signIn(_ account: String) -> Int {
    sessions.append(Session(account: account))
    return sessions.count - 1
  }

  func answer(_ form: [String: String]) -> HTTPResponse {
    if let code = form["code"] { return granted(signIn(code)) }
    let parts = (form["refresh_token"] ?? "").split(separator: "-").compactMap { Int($0) }
    guard parts.count == 2, sessions.indices.contains(parts[0]) else {
      return json(#"{"error":"invalid_grant"}"#, status: 400)
    }
    let (number, token) = (parts[0], parts[1])
    fleet.counts.add("refreshes")
    guard !sessions[number].isEnded else { return json(#"{"error":"invalid_grant"}"#, status: 400) }
    switch rotation {
    case .none: break
    case .grace(let grace):
      if let used = sessions[number].usedAt[token] {
        guard fleet.now <= used + grace.milliseconds, token == sessions[number].newest - 1 else {
          return reused(number)
        }
        fleet.counts.add("repeated in the grace")
      } else {
        use(token, of: number)
      }
    case .strict:
      guard sessions[number].usedAt[token] == nil else { return reused(number) }
      use(token, of: number)
    }
    return granted(number)
  }

  private func use(_ token: Int, of number: Int) {
    sessions[number].usedAt[token] = fleet.now
    sessions[number].newest = token + 1
  }

  private func reused(_ number: Int) -> HTTPResponse {
    sessions[number].isEnded = true
    fleet.violated(.oneRefresh, "the refresh token of \(sessions[number].account) was spent twice")
    return json(#"{"error":"invalid_grant"}"#, status: 400)
  }

  private func granted(_ number: Int) -> HTTPResponse {
    fleet.issued += 1
    return json(
      """
      {"access_token":"a\(number)-\(fleet.issued)","token_type":"Bearer","expires_in":3600,\
      "refresh_token":"\(number)-\(sessions[number].newest)"}
      """)
  }
}

/// Requests wait for a connection, and the process may stand still before it writes them. No answer is lost: a grant whose
/// answer is lost may end.
final class FleetTransport: Transport, @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  private unowned let machine: FleetMachine
  private var fleet: Fleet { machine.fleet }

  init(_ machine: FleetMachine) { self.machine = machine }

  func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    await machine.travel(.network)
    // Another step may have stopped the process at the same moment.
    while machine.stoppedUntil > fleet.now { await machine.running(after: 0) }
    if fleet.now < fleet.healsAt, fleet.network.chance(0.02) { throw TransportError(.notSent, "no connection") }
    if let latest = request.latestSend, .milliseconds(fleet.now + 1000) > latest {
      fleet.counts.add("requests too late")
      if fleet.fault != .noSendCheck { throw TransportError(.notSent, "too late") }
    }
    if let token = request.form["refresh_token"] { fleet.database.sends(Secret(token), by: machine.number) }
    fleet.trace.add(fleet.now, "m\(machine.number) sends \(request.form["refresh_token"] ?? request.purpose.rawValue)")
    // It was sent, and a stop of the process does not matter.
    await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
      fleet.time.after(fleet.network.between(1, 400)) { continuation.resume() }
    }
    let answer = fleet.provider.answer(request.form)
    if fleet.network.chance(0.25) { await machine.running(after: fleet.network.logarithmic(second, 2 * minute)) }
    await machine.travel(.network)
    return answer
  }
}
