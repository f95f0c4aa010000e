import Foundation
import OAuth

extension ModelProvider {
  /// Reads a request and acts on it. `isHeard`: the sender will get the answer.
  func act(_ exchange: ModelNetwork.Exchange, at now: Moment, isHeard: Bool) -> HTTPResponse {
    switch exchange.request.purpose {
    case .discovery: return json(metadata)
    case .keys: return json(#"{"keys":[]}"#)
    case .userinfo: return json("{}")
    case .par, .device, .introspection, .registration, .resource: return HTTPResponse(status: 404)
    case .revocation:
      if let token = exchange.form["token"].flatMap(Token.init), let session = session(token), token.kind == .refresh {
        if session.isAlive { session.ended = .revoked }
      }
      return HTTPResponse(status: 200)
    case .token:
      return exchange.isRefresh
        ? refreshed(exchange, at: now, isHeard: isHeard) : exchanged(exchange, at: now)
    }
  }

  private func refreshed(_ exchange: ModelNetwork.Exchange, at now: Moment, isHeard: Bool) -> HTTPResponse {
    guard let token = exchange.refreshToken, token.kind == .refresh, let session = session(token) else {
      return refusal("invalid_grant")
    }
    if sabotage == .forgetful, misses() { return refusal("invalid_grant") }
    if sabotage == .mixup, misses(), let other = sessions.first(where: { $0.account != session.account }) {
      return granted(other, grant(other, sentAt: exchange.sentAt, at: now, run: exchange.run), other.newest)
    }
    switch refresh(token.number, of: session, sentAt: exchange.sentAt, at: now, run: exchange.run) {
    case .refused: return refusal("invalid_grant")
    case .granted(let access, let refresh):
      if let refresh, exchange.form["resource"] != nil, !isDeclaredToRotate {
        session.refreshTokens[refresh].isForResource = true
      }
      if refresh != nil, !isHeard { session.excuse = exchange.isOver ? .crash : .lostAnswer }
      if refresh != nil, !isHeard { watch.lostAt[session.number] = watch.lostAt[session.number] ?? now }
      return granted(session, access, refresh)
    }
  }

  private func misses() -> Bool {
    missed += 1
    return missed % 10 == 0
  }

  private func exchanged(_ exchange: ModelNetwork.Exchange, at now: Moment) -> HTTPResponse {
    guard let code = exchange.form["code"], let account = spend(code) else { return refusal("invalid_grant") }
    let known = sessions.last { $0.account == account && $0.isAlive && !$0.isForgotten && !$0.refreshTokens.isEmpty }
    if givesRefreshTokenOnce, let known {
      let access = grant(known, sentAt: exchange.sentAt, at: now, run: exchange.run, withoutRefreshToken: true)
      return granted(known, access, nil)
    }
    let session = begin(account: account, withRefreshToken: true, at: now)
    return granted(session, grant(session, sentAt: exchange.sentAt, at: now, run: exchange.run), 0)
  }

  private func granted(_ session: Session, _ access: Int, _ refresh: Int?) -> HTTPResponse {
    var members = #""access_token":"\#(Token(.access, session, access).text)","token_type":"Bearer""#
    if let accessLifetime { members += #","expires_in":\#(accessLifetime * (sabotage == .boastful ? 2 : 1))"# }
    if let refresh { members += #","refresh_token":"\#(Token(.refresh, session, refresh).text)""# }
    if let refreshIn { members += #","refresh_in":\#(refreshIn)"# }
    if saysRefreshLifetime, let refreshLifetime {
      members += #","refresh_token_expires_in":\#(refreshLifetime / 1000)"#
    }
    return json("{\(members)}")
  }

  private func refusal(_ code: String) -> HTTPResponse { json(#"{"error":"\#(code)"}"#, status: 400) }
}

func json(_ body: String, status: Int = 200, _ headers: [HTTPRequest.Header] = []) -> HTTPResponse {
  HTTPResponse(
    status: status, headers: [.init("Content-Type", "application/json")] + headers, body: Data(body.utf8))
}

func page(_ status: Int, _ headers: [HTTPRequest.Header] = []) -> HTTPResponse {
  HTTPResponse(
    status: status, headers: [.init("Content-Type", "text/html")] + headers,
    body: Data("<html><body>Sorry</body></html>".utf8))
}

extension Fault {
  /// The answer instead of the correct one.
  func response(_ random: inout Randomness, good: HTTPResponse?, longWaits: Bool) -> HTTPResponse? {
    switch self {
    case .connectionRefused, .lostBefore, .lostAfter, .silentBefore, .silentAfter, .slow, .odd, .tooLargeAfter:
      return nil
    case .unavailable: return page(503)
    case .unavailableWithRetryAfter:
      return page(503, [.init("Retry-After", "\(random.pick(longWaits ? [3600, 86_400] : [1, 30, 120, 600]))")])
    case .tooManyRequests:
      return json(#"{"error":"slow_down"}"#, status: 429, [.init("Retry-After", "\(random.pick([1, 10, 60, 600]))")])
    case .badGateway: return page(502)
    case .errorBefore, .errorAfter: return random.chance(0.5) ? page(500) : json("{}", status: 500)
    case .pageAt200, .pageAt200After: return page(200)
    case .pageAt400: return page(400)
    case .errorAt200: return json(#"{"error":"temporarily_unavailable"}"#)
    case .serverError: return json(#"{"error":"server_error"}"#, status: 400)
    case .temporarilyUnavailable: return json(#"{"error":"temporarily_unavailable"}"#, status: 503)
    case .invalidClient: return json(#"{"error":"invalid_client"}"#, status: 401)
    case .truncatedAfter:
      return good.map { HTTPResponse(status: $0.status, headers: $0.headers, body: $0.body.prefix($0.body.count / 2)) }
    case .wrongTypeAfter: return json(#"{"access_token":17,"token_type":"Bearer","expires_in":3600}"#)
    }
  }
}

/// Unusual members of token responses of real servers (RFC 6749 §5.1).
struct Oddity {
  let response: HTTPResponse
  /// The lifetime of the access token is unreadable.
  var hidesLifetime = false
  /// The access token can be used all the same.
  var isHarmless = true

  init(_ good: HTTPResponse, _ random: inout Randomness) {
    let text = String(decoding: good.body, as: UTF8.self)
    guard text.hasPrefix(#"{"access_token":"#), let comma = text.firstIndex(of: ",") else {
      response = good
      return
    }
    let type = #""token_type":"Bearer""#
    let kind = random.below(16)
    var (status, odd) = (good.status, text)
    func member(_ text: String) -> String { "{" + text + "," + odd.dropFirst() }
    switch kind {
    case 0...4:
      let value = ["-1", #""""#, #""abc""#, "true", "[]"][kind]
      odd = odd.replacing(#/"expires_in":\d+/#, with: #""expires_in":\#(value)"#)
      hidesLifetime = true
    case 5: odd = odd.replacing(type, with: #""token_type":null"#)
    case 6: odd = odd.replacing(type, with: #""token_type":"unknown""#)
    case 7: odd = odd.replacing("," + type, with: "")
    case 8: odd = member(#""scope":17"#)
    case 9: odd = member(#""scope":{}"#)
    case 10: odd = member(#""id_token":17"#)
    case 11: odd = "{" + text[text.index(after: comma)...]
    case 12: odd = member(type)
    case 13: odd = member(#""error":"temporarily_unavailable""#)
    case 14: odd = member(#""error":"invalid_grant""#)
    default: status = 201
    }
    isHarmless = ![6, 11, 13, 14].contains(kind)
    response = HTTPResponse(status: status, headers: good.headers, body: Data(odd.utf8))
  }
}

/// RFC 9110 §5.6.7.
func httpDate(_ seconds: Int64) -> String {
  let days = seconds / 86_400
  let z = days + 719_468
  let era = z / 146_097
  let dayOfEra = z - era * 146_097
  let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
  let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
  let shifted = (5 * dayOfYear + 2) / 153
  let month = shifted < 10 ? shifted + 3 : shifted - 9
  let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
  let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
  func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
  let dayOfMonth = dayOfYear - (153 * shifted + 2) / 5 + 1
  let time = seconds % 86_400
  return "\(weekdays[Int(days % 7)]), \(two(dayOfMonth)) \(names[Int(month - 1)]) \(year) "
    + "\(two(time / 3600)):\(two(time / 60 % 60)):\(two(time % 60)) GMT"
}
