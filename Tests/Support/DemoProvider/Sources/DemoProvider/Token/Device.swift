import Foundation
import NIOHTTP1
import Synchronization

extension Ledger {
  /// A device authorization (RFC 8628 §3.2).
  struct Device: Sendable {
    enum State: Sendable {
      case pending
      case approved(User, at: Date)
      case denied
      case redeemed
    }
    var clientID: String
    var userCode: String
    var scopes: [String]
    var issued: Date
    /// Seconds; each poll that comes too fast lengthens it.
    var interval: Double
    var lastPoll: Date?
    var state = State.pending
  }

  /// A poll at the token endpoint (RFC 8628 §3.5).
  mutating func poll(_ code: String, for asking: Asking) throws(OAuthFailure) -> Issued {
    count(.poll)
    guard let device = devices[code], device.clientID == asking.client.id else {
      switch settings.device.unknown {
      case .invalidGrant: throw .invalidGrant("the device code is unknown or another client's")
      case .notFound: throw OAuthFailure(code: "", description: "unknown device code", status: 404)
      }
    }
    devices.update(code) { $0.lastPoll = asking.now }
    if settings.device.slowDown, let last = device.lastPoll, case .pending = device.state {
      // Networks jitter: a poll may be early by a tenth.
      guard asking.now.timeIntervalSince(last) >= device.interval - min(0.5, device.interval / 10) else {
        count(.slowDown)
        devices.update(code) { $0.interval += Limits.slowDownStep }
        throw OAuthFailure(code: "slow_down", description: "poll less often")
      }
    }
    guard asking.now.timeIntervalSince(device.issued) < settings.device.ttl.asSeconds else {
      switch settings.device.expired {
      case .expiredToken: throw OAuthFailure(code: "expired_token", description: "the device code has expired")
      case .invalidGrant: throw .invalidGrant("the device code has expired")
      }
    }
    switch device.state {
    case .pending: throw OAuthFailure(code: "authorization_pending", description: "the user has not answered yet")
    case .denied: throw OAuthFailure(code: "access_denied", description: "the user refused")
    case .redeemed:
      count(.reuse)
      throw .invalidGrant("the device code was used before")
    case .approved(let user, let time):
      devices.update(code) { $0.state = .redeemed }
      let approved = Approved(clientID: device.clientID, user: user, scopes: device.scopes)
      return try open(approved, for: asking, isRefreshable: true, authenticated: time)
    }
  }

  /// The user's answer for a user code; nil: for the newest pending one. False if none is pending.
  mutating func answerDevice(_ userCode: String?, with user: User?, at now: Date) -> Bool {
    let waiting = devices.entriesByAge.filter {
      guard case .pending = $0.value.state else { return false }
      return userCode.map(Self.normalized) == nil || userCode.map(Self.normalized) == Self.normalized($0.value.userCode)
    }
    guard let found = waiting.last, now.timeIntervalSince(found.value.issued) < settings.device.ttl.asSeconds else {
      return false
    }
    devices.update(found.key) { $0.state = user.map { .approved($0, at: now) } ?? .denied }
    return true
  }

  /// People leave out the dash and the capitals (RFC 8628 §6.1).
  private static func normalized(_ userCode: String) -> String {
    userCode.uppercased().filter(\.isLetter)
  }
}

extension Provider {
  /// The device authorization endpoint (RFC 8628 §3.1, §3.2).
  func authorizeDevice(_ turn: Turn) throws(OAuthFailure) -> Response {
    let form = turn.request.form
    if let name = form.repeated { throw .invalidRequest("\(name) occurs twice") }
    let client = try client(of: turn)
    let code = "device-\(Base64URL.random())"
    let userCode = Self.newUserCode()
    let settings = ledger.withLock { ledger in
      ledger.devices.insert(
        Ledger.Device(
          clientID: client.id, userCode: userCode, scopes: form.words("scope") ?? [], issued: turn.now,
          interval: ledger.settings.device.interval.asSeconds),
        for: code)
      return ledger.settings.device
    }
    let link = "\(issuer)/device"
    var members: [String: DemoServer.JSON] = [
      "device_code": .string(code), "user_code": .string(userCode),
      settings.verificationURL ? "verification_url" : "verification_uri": .string(link),
      "expires_in": .int(Int(settings.ttl.asSeconds)), "interval": .int(Int(settings.interval.asSeconds)),
    ]
    if settings.complete { members["verification_uri_complete"] = .string("\(link)?user_code=\(userCode)") }
    var response = Response.json(.object(members).overlaid(with: settings.extra))
    response.headers.append(("Cache-Control", "no-store"))
    return response
  }

  /// Eight consonants, so that no word comes of them (RFC 8628 §6.1).
  private static func newUserCode() -> String {
    let letters = Array("BCDFGHJKLMNPQRSTVWXZ")
    let code = (0..<8).map { _ in letters[Int.random(in: 0..<letters.count)] }
    return String(code.prefix(4)) + "-" + String(code.suffix(4))
  }

  /// The page for the user code and the answer (RFC 8628 §3.3).
  func devicePage(_ turn: Turn) -> Response {
    let form = turn.request.parameters
    let code = form["user_code"] ?? ""
    guard turn.request.method == .POST else { return .page(.device(code: code, problem: nil)) }
    let user = User(hint: form["username"] ?? "")
    let isAllowed = form["decision"] == "allow"
    guard user != nil || !isAllowed else {
      return .page(.device(code: code, problem: "There is no such user. Try alice, bob or user-1."), status: 422)
    }
    let isAnswered = ledger.withLock { $0.answerDevice(code, with: isAllowed ? user : nil, at: turn.now) }
    guard isAnswered else {
      return .page(.device(code: code, problem: "No device waits with this code."), status: 422)
    }
    return .page(.deviceAnswered(isAllowed: isAllowed))
  }
}
