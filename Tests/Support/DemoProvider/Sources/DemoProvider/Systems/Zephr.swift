import Foundation
import NIOHTTP1
import Synchronization

/// Zephr's sign-in through an identity provider, as its apps speak it: a session cookie, no OAuth.
extension Provider {
  static let zephrPage = "/zephr-idp"
  private static let identityProviders: Set = ["google", "facebook", "apple"]
  static let startCookie = "blaize_tracking"

  func zephrPlace(_ path: String) -> DemoServer.Fault.Place? {
    if path == Self.zephrPage { return .zephrPage }
    let prefix = ledger.withLock { $0.settings.zephr.prefix } + "/"
    guard path.hasPrefix(prefix) else { return nil }
    switch path.dropFirst(prefix.count) {
    case "register": return .zephrRegister
    case "profile": return .zephrProfile
    case "logout": return .zephrLogout
    case let rest: return rest.hasPrefix("oauth/") ? .zephrStart : nil
    }
  }

  func zephr(_ turn: Turn) -> Response {
    switch turn.place {
    case .zephrStart: zephrStart(turn)
    case .zephrPage: zephrSignIn(turn)
    case .zephrRegister: zephrRegister(turn)
    default: zephrAuthorized(turn)
    }
  }

  /// The redirect to the identity provider, which a client does not follow itself.
  private func zephrStart(_ turn: Turn) -> Response {
    let idp = turn.request.path.split(separator: "/").last.map(String.init) ?? ""
    guard Self.identityProviders.contains(idp) else { return .zephr("There is no such identity provider.", 404) }
    let needsClientType = ledger.withLock { $0.settings.zephr.startNeedsClientType }
    guard turn.request.query["client_type"] != nil || !needsClientType else {
      return .zephr("client_type is missing.", 400)
    }
    let ticket = Base64URL.random()
    let tracking = UUID().uuidString.lowercased()
    let settings = ledger.withLock { ledger in
      let settings = ledger.settings.zephr
      var redirect = settings.redirect
      if !settings.redirectParameter.isEmpty, let asked = turn.request.query[settings.redirectParameter],
        asked.hasPrefix(redirect)
      {
        redirect = asked
      }
      ledger.zephr.tickets.insert(.init(tracking: tracking, redirect: redirect), for: ticket)
      return settings
    }
    var response = Response(status: settings.startStatus)
    if settings.startHasLocation {
      let place = "\(issuer)\(Self.zephrPage)?idp=\(idp)&ticket=\(ticket)"
      response.headers.append(("Location", place))
    }
    if settings.startSetsCookie {
      response.headers.append(("Set-Cookie", "\(Self.startCookie)=\(tracking); Path=/; HttpOnly"))
    }
    if settings.startStatus == 200 { response.body = .json(["message": "ok"]) }
    return response
  }

  /// The identity provider and what follows it: back to the app with a session, a state key or a message.
  private func zephrSignIn(_ turn: Turn) -> Response {
    let form = turn.request.parameters
    let name = form["ticket"] ?? ""
    let (found, approve, user) = ledger.withLock {
      ($0.zephr.tickets[name], $0.settings.approve, $0.settings.defaultUser)
    }
    guard let ticket = found, ticket.isGood else {
      return .page(.problem("This sign-in is unknown or over."), status: 400)
    }
    var hint = form["login_hint"] ?? user
    let hidden = [("ticket", name), ("idp", form["idp"] ?? "")]
    if turn.request.method == .POST {
      hint = form["decision"] == "allow" ? form["username"] ?? "" : "deny"
      guard hint == "deny" || User(hint: hint) != nil else {
        return .page(.zephr(hidden, userName: hint, problem: "There is no such user."), status: 422)
      }
    } else if approve == .ask, form["login_hint"] == nil {
      return .page(.zephr(hidden, userName: hint, problem: nil))
    }
    let pairs = ledger.withLock { ledger in
      ledger.zephr.tickets.update(name) { $0.isGood = false }
      return ledger.zephrOutcome(User(hint: hint), ticket, at: turn.now)
    }
    return .redirect(to: ticket.redirect.adding(pairs), status: 303)
  }

  /// The calls that need a session.
  private func zephrAuthorized(_ turn: Turn) -> Response {
    let cookies = turn.request.cookies
    return ledger.withLock { ledger in
      let settings = ledger.settings.zephr
      guard let session = ledger.zephr.session(cookies[settings.cookieName] ?? "", at: turn.now),
        !settings.needsStartCookie || cookies[Self.startCookie] == session.tracking
      else { return .zephr("There is no session.", 401) }
      if turn.place == .zephrLogout {
        guard let reach = DemoServer.JSON(text: turn.request.body)?["where"]?.string,
          ledger.zephr.end(session, reach: reach)
        else { return .zephr("where is JUST_HERE, THIS_DEVICE, OTHER_DEVICES or EVERYWHERE.", 400) }
        return .zephr("Logged out.", 200)
      }
      let profile: DemoServer.JSON = [
        "user_id": .string(session.user.subject), "email_address": .string(session.user.email),
        "name": .string(session.user.fullName),
      ]
      let attributes = ledger.zephr.registered[session.user.name] ?? [:]
      var response = Response.json(profile.overlaid(with: attributes).overlaid(with: settings.profileExtra))
      if settings.profileSetsCookie { response.headers.append(("Set-Cookie", session.cookie(settings))) }
      return response
    }
  }
}

extension Ledger {
  /// The parameters of the app's redirect.
  fileprivate mutating func zephrOutcome(_ user: User?, _ ticket: Zephr.Ticket, at now: Date) -> [(String, String)] {
    var outcome = settings.zephr.outcome
    if outcome == .natural {
      outcome = user.map { zephr.registered[$0.name] == nil ? .partial : .success } ?? .failure
    }
    switch (outcome, user) {
    case (.other, _): return [("action", "login"), ("status", settings.zephr.otherStatus)]
    case (.success, let user?):
      let session = zephr.open(for: user, ticket.tracking, settings.zephr, at: now)
      return [
        ("action", "login"), ("status", "success"), ("tracking_id", session.tracking), ("session_id", session.id),
      ]
    case (.partial, let user?):
      let key = "state-key+\(Base64URL.random())=="
      zephr.stateKeys.insert(.init(user: user, tracking: ticket.tracking), for: key)
      return [("action", "register"), ("status", "partial"), ("state_key", key), ("identifier", user.email)]
    case (.failure, _), (.natural, _), (.success, nil), (.partial, nil):
      return [("action", "login"), ("status", "failure"), ("message", settings.zephr.message)]
    }
  }
}

extension Response {
  static func zephr(_ message: String, _ status: Int) -> Self { .json(["message": .string(message)], status: status) }
}

extension Page {
  fileprivate static func zephr(_ hidden: [(String, String)], userName: String, problem: String?) -> Self {
    .signIn(
      title: "Sign in to the newspaper", action: Provider.zephrPage, hidden: hidden, userName: userName,
      problem: problem)
  }
}

extension Request {
  /// By name (RFC 6265 §4.2).
  var cookies: [String: String] {
    let pairs = headers["cookie"].flatMap { $0.split(separator: ";") }.map {
      let parts = $0.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
      return (parts.first ?? "", parts.count > 1 ? parts[1] : "")
    }
    return Dictionary(pairs) { first, _ in first }
  }
}
