import Foundation
import NIOHTTP1
import Synchronization

extension Provider {
  /// A code, or the key of a session limit, for an access token; with `session_id` in place of that session.
  func vmsLogin(_ turn: Turn) -> Response {
    ledger.withLock { ledger in
      let settings = ledger.settings.vms
      let refuse = { (field: String, text: String) in
        Response.vmsErrors(field, text, status: settings.badCodeStatus, settings.errors)
      }
      guard case .object(let members)? = DemoServer.JSON(text: turn.request.body) else {
        return .vms("The body is no JSON object.", status: 400)
      }
      if let name = members.first(where: { $0.value == .null })?.key { return refuse(name, "It must be left out.") }
      let isKey = members["key"] != nil
      guard let secret = (members["key"] ?? members["code"])?.string else {
        return refuse("code", "A code or a key is required.")
      }
      guard let pending = ledger.vms.pending[secret], pending.isGood, pending.isKey == isKey,
        turn.now.timeIntervalSince(pending.issued) < Limits.vmsCodeLifetime
      else { return refuse(isKey ? "key" : "code", "It is unknown, used or expired.") }
      if let id = members["session_id"] {
        guard ledger.vms.end(id.string ?? id.text, of: pending.user) else {
          return refuse("session_id", "There is no such session.")
        }
      }
      let limit = settings.sessionLimit
      if limit > 0, ledger.vms.sessions(of: pending.user).count >= limit {
        return ledger.vms.limited(secret, pending, settings)
      }
      ledger.vms.pending.update(secret) { $0.isGood = false }
      let session = ledger.vms.open(for: pending.user, turn)
      return .json([
        "user": pending.user.vms(settings), "access_token": .string(session.token),
      ])
    }
  }
}

extension Ledger {
  /// The state of the VMS.
  struct VMS: Sendable {
    /// The external URLs, and whether each is still valid.
    var tickets = BoundedMap<String, Bool>(capacity: Limits.vmsTickets)
    /// Codes and keys.
    var pending = BoundedMap<String, Pending>(capacity: Limits.codes)
    private var sessions: [Session] = []
    private var lastSession = 100

    struct Pending: Sendable {
      var user: User
      var issued: Date
      var isKey = false
      var isGood = true
    }

    struct Session: Sendable {
      var id: String
      var user: User
      var token: String
      var uuid = ""
      var userAgent = "demo/1.0"
      var client = "web"
      var isOnline = true
      var started: Date
    }

    func sessions(of user: User) -> [Session] { sessions.filter { $0.user == user } }

    /// Whose access token it is; a lifetime of zero is for ever.
    func session(of token: String, ttl: Duration, at now: Date) -> Session? {
      sessions.first {
        !token.isEmpty && $0.token == token && (ttl == .zero || now.timeIntervalSince($0.started) < ttl.asSeconds)
      }
    }

    @discardableResult
    mutating func add(_ session: Session) -> Session {
      var session = session
      lastSession += 1
      session.id = String(lastSession)
      sessions.append(session)
      if sessions.count > Limits.vmsTokens { sessions.removeFirst() }
      return session
    }

    fileprivate mutating func open(for user: User, _ turn: Provider.Turn) -> Session {
      let headers = turn.request.headers
      return add(
        Session(
          id: "", user: user, token: "vmstoken-\(Base64URL.random())", uuid: headers.first(name: "x-uuid") ?? "",
          userAgent: headers.first(name: "user-agent") ?? "", client: headers.first(name: "x-client") ?? "",
          started: turn.now))
    }

    /// Whether there was such a session.
    mutating func end(_ id: String, of user: User) -> Bool {
      let before = sessions.count
      sessions.removeAll { $0.id == id && $0.user == user }
      return sessions.count < before
    }

    mutating func end(uuid: String, of user: User) {
      sessions.removeAll { $0.uuid == uuid && $0.user == user }
    }

    /// Ends all of a user's; how many.
    mutating func endAll(of user: User) -> Int {
      let before = sessions.count
      sessions.removeAll { $0.user == user }
      return before - sessions.count
    }

    /// 419: too many sessions, with the list of sessions.
    fileprivate mutating func limited(
      _ secret: String, _ pending: Pending, _ settings: DemoServer.Settings.VMS
    ) -> Response {
      let list = DemoServer.JSON.array(sessions(of: pending.user).map { $0.json(settings, current: nil) })
      guard settings.limitShape == .object else { return .json(list, status: 419) }
      var members: [String: DemoServer.JSON] = ["sessions_limit": .int(settings.sessionLimit), "sessions": list]
      if settings.captchaIn > 0 { members["captcha_will_required_in"] = .int(settings.captchaIn) }
      if settings.hasKey {
        var key = secret
        if !pending.isKey || settings.changesKey {
          self.pending.update(secret) { $0.isGood = false }
          key = "vmskey-\(Base64URL.random())"
          self.pending.insert(Pending(user: pending.user, issued: pending.issued, isKey: true), for: key)
        }
        members["key"] = .string(key)
      }
      return .json(.object(members), status: 419)
    }
  }
}

extension Ledger.VMS.Session {
  /// `last` is absent for a session that is online.
  func json(_ settings: DemoServer.Settings.VMS, current: Self?) -> DemoServer.JSON {
    var members: [String: DemoServer.JSON] = [
      "id": settings.identifier(Int(id) ?? 0), "user_agent": .string(userAgent), "online": .bool(isOnline),
      "client": .string(client), "ip": "127.0.0.1", "is_current": .bool(id == current?.id),
    ]
    if !isOnline { members["last"] = .string(ISO8601DateFormatter().string(from: started)) }
    return .object(members)
  }
}

extension DemoServer.Settings.VMS {
  fileprivate func identifier(_ number: Int) -> DemoServer.JSON {
    identifiers == .number ? .int(number) : .string(String(number))
  }
}

extension User {
  /// Only alice has a `phone`: absent keys are omitted.
  func vms(_ settings: DemoServer.Settings.VMS) -> DemoServer.JSON {
    var members: [String: DemoServer.JSON] = [
      "id": settings.identifier(number), "name": .string(fullName), "login": .string(name), "email": .string(email),
      "permissions": ["live", "archive"], "can_update_password": false,
    ]
    if name == "alice" { members["phone"] = "+49 30 5550100" }
    return .object(members).overlaid(with: settings.userExtra)
  }

  /// A number of its own.
  var number: Int {
    switch name {
    case "alice": 1
    case "bob": 2
    default: 1000 + (Int(name.dropFirst("user-".count)) ?? 0)
    }
  }
}
