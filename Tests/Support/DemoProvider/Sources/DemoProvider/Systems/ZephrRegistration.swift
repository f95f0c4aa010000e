import Foundation
import Synchronization

extension Provider {
  /// The rest of a sign-in of a user without an account: a state key and attributes for a session.
  func zephrRegister(_ turn: Turn) -> Response {
    let body = DemoServer.JSON(text: turn.request.body)
    return ledger.withLock { ledger in
      let settings = ledger.settings.zephr
      guard let body, case .object? = body["identifiers"], case .object(let attributes)? = body["attributes"],
        let key = body["validators"]?["token_exchange"]?.string
      else { return .zephr("identifiers, validators.token_exchange and attributes are needed.", 400) }
      guard let waiting = ledger.zephr.stateKeys[key], waiting.isGood else {
        return .zephr("The state key is not good.", 400)
      }
      guard !settings.needsStartCookie || turn.request.cookies[Self.startCookie] == waiting.tracking else {
        return .zephr("The cookie of the start is missing.", 400)
      }
      if let (message, status) = ledger.zephr.refusal(of: waiting.user, attributes, settings) {
        if settings.burnsStateKey { ledger.zephr.stateKeys.update(key) { $0.isGood = false } }
        return .zephr(message, status)
      }
      ledger.zephr.stateKeys.update(key) { $0.isGood = false }
      ledger.zephr.registered.insert(attributes, for: waiting.user.name)
      let session = ledger.zephr.open(for: waiting.user, waiting.tracking, settings, at: turn.now)
      return session.registered(settings)
    }
  }
}

extension Ledger {
  /// What Zephr remembers.
  struct Zephr: Sendable {
    var tickets = BoundedMap<String, Ticket>(capacity: Limits.zephrTickets)
    var stateKeys = BoundedMap<String, Waiting>(capacity: Limits.zephrTickets)
    /// Users by name, with their attributes.
    var registered: BoundedMap<String, [String: DemoServer.JSON]>
    private var sessions: [Session] = []

    init() {
      registered = BoundedMap(capacity: Limits.zephrUsers)
      for name in ["alice", "bob"] { registered.insert([:], for: name) }
    }

    /// A sign-in at the identity provider.
    struct Ticket: Sendable {
      var tracking: String
      var redirect: String
      var isGood = true
    }

    /// A registration that has begun.
    struct Waiting: Sendable {
      var user: User
      var tracking: String
      var isGood = true
    }

    struct Session: Sendable {
      let id = UUID().uuidString.lowercased()
      var user: User
      /// Sessions of one device.
      var tracking: String
      var expires: Date
    }

    mutating func open(
      for user: User, _ tracking: String, _ settings: DemoServer.Settings.Zephr, at now: Date
    ) -> Session {
      let session = Session(
        user: user, tracking: tracking, expires: now.addingTimeInterval(settings.sessionTTL.asSeconds))
      sessions.append(session)
      if sessions.count > Limits.zephrSessions { sessions.removeFirst() }
      return session
    }

    func session(_ id: String, at now: Date) -> Session? {
      sessions.first { $0.id == id && now < $0.expires }
    }

    /// Whether `reach` is a value of the protocol.
    mutating func end(_ session: Session, reach: String) -> Bool {
      switch reach {
      case "JUST_HERE": sessions.removeAll { $0.id == session.id }
      case "THIS_DEVICE": sessions.removeAll { $0.user == session.user && $0.tracking == session.tracking }
      case "OTHER_DEVICES": sessions.removeAll { $0.user == session.user && $0.tracking != session.tracking }
      case "EVERYWHERE": sessions.removeAll { $0.user == session.user }
      default: return false
      }
      return true
    }

    /// Ends all of a user's; how many.
    mutating func endAll(of user: User) -> Int {
      let before = sessions.count
      sessions.removeAll { $0.user == user }
      return before - sessions.count
    }

    /// The reason to refuse this registration: a text and a status; nil: it is accepted.
    fileprivate func refusal(
      of user: User, _ attributes: [String: DemoServer.JSON], _ settings: DemoServer.Settings.Zephr
    ) -> (String, Int)? {
      let domain = user.email.split(separator: "@").last.map(String.init)
      let isRefused = settings.refusedDomain == domain || settings.registering == .domainRefused
      let exists = registered[user.name] != nil || settings.registering == .exists
      if settings.registering == .badRequest { return ("Bad request.", 400) }
      let missing = settings.requiredAttributes.split(separator: " ").filter { attributes[String($0)] == nil }
      if let name = missing.first { return ("The attribute \(name) is missing.", 400) }
      if exists { return ("The user exists.", settings.userExistsStatus) }
      return isRefused ? ("This e-mail domain is not allowed.", settings.refusedDomainStatus) : nil
    }
  }
}

extension Ledger.Zephr.Session {
  /// As the session cookie is set; the last semicolon is Zephr's own.
  func cookie(_ settings: DemoServer.Settings.Zephr) -> String {
    let end = settings.cookieExpires ? " Expires=\(HTTPDate.text(of: expires.timeIntervalSince1970));" : ""
    return "\(settings.cookieName)=\(id);\(end) Path=/;"
  }

  fileprivate func registered(_ settings: DemoServer.Settings.Zephr) -> Response {
    var members: [String: DemoServer.JSON] = ["message": "User registered.", "tracking_id": .string(tracking)]
    if settings.cookiePlace != .header { members["cookie"] = .string(cookie(settings)) }
    var response = Response.json(.object(members))
    if settings.cookiePlace != .member { response.headers.append(("Set-Cookie", cookie(settings))) }
    return response
  }
}
