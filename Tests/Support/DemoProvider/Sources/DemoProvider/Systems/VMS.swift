import Foundation
import NIOHTTP1
import Synchronization

/// A video management system's external login, as its apps speak it: JSON both ways, no OAuth.
extension Provider {
  static let vmsPrefix = "/api/v1/"
  static let vmsPage = "/vms/sign-in"

  static func vmsPlace(_ path: String) -> DemoServer.Fault.Place? {
    guard path.hasPrefix(vmsPrefix) else { return path == vmsPage ? .vmsPage : nil }
    switch path.dropFirst(vmsPrefix.count) {
    case "static/basic": return .vmsBasic
    case "external/auth/url": return .vmsURL
    case "external/auth/callback": return .vmsLogin
    case "logout": return .vmsLogout
    case "sessions": return .vmsSessions
    case "users/self": return .vmsUser
    case let rest: return rest.hasPrefix("sessions/") ? .vmsSession : nil
    }
  }

  func vms(_ turn: Turn) -> Response {
    let settings = ledger.withLock { $0.settings.vms }
    if turn.place == .vmsPage { return vmsPage(turn) }
    if settings.needsHeaders, let name = Self.missingHeader(of: turn.request) {
      return .vms("The header \(name) is missing.", status: 400)
    }
    let version = turn.request.headers.first(name: "x-version") ?? ""
    if !settings.oldestClient.isEmpty, version.compare(settings.oldestClient, options: .numeric) == .orderedAscending {
      return .vms("This client is too old: at least \(settings.oldestClient) is needed.", status: 409)
    }
    switch turn.place {
    case .vmsBasic:
      return .json([
        "is_captcha_available": .bool(settings.hasCaptcha), "is_external_auth_enabled": .bool(settings.isEnabled),
        "available_locales": ["en", "de"], "version": .string(settings.version),
      ])
    case .vmsURL:
      guard settings.isEnabled else { return .vms("External login is disabled.", status: 403) }
      let ticket = Base64URL.random()
      ledger.withLock { $0.vms.tickets.insert(true, for: ticket) }
      return .json(["url": .string("\(issuer)\(Self.vmsPage)?ticket=\(ticket)")])
    case .vmsLogin: return vmsLogin(turn)
    default: return vmsAuthorized(turn)
    }
  }

  /// The first header that a call must have and this one has not.
  private static func missingHeader(of request: Request) -> String? {
    let isJSON = { (name: String) in
      request.headers.first(name: name)?.lowercased().contains("application/json") ?? false
    }
    if let name = ["Accept", "Content-Type"].first(where: { !isJSON($0) }) { return name }
    return ["X-UUID", "X-Client", "hl", "X-Version"].first { request.headers.first(name: $0)?.isEmpty ?? true }
  }

  /// The calls of a signed-in user.
  private func vmsAuthorized(_ turn: Turn) -> Response {
    let token = turn.request.credentials(scheme: "Bearer") ?? ""
    return ledger.withLock { ledger in
      let settings = ledger.settings.vms
      guard let session = ledger.vms.session(of: token, ttl: settings.tokenTTL, at: turn.now) else {
        return .vms("Unauthenticated.", status: 401)
      }
      switch turn.place {
      case .vmsSessions:
        let list = DemoServer.JSON.array(
          ledger.vms.sessions(of: session.user).map { $0.json(settings, current: session) })
        return .json(settings.listShape == .array ? list : ["sessions": list])
      case .vmsSession:
        let id = turn.request.path.dropFirst((Self.vmsPrefix + "sessions/").count)
        guard ledger.vms.end(String(id), of: session.user) else {
          return .vms("There is no such session.", status: 404)
        }
        return .done(settings.doneStatus)
      case .vmsLogout:
        guard let uuid = DemoServer.JSON(text: turn.request.body)?["uuid"]?.string else {
          return .vmsErrors("uuid", "The uuid is required.", status: 422, settings.errors)
        }
        ledger.vms.end(uuid: uuid, of: session.user)
        return .done(settings.doneStatus)
      default: return .json(session.user.vms(settings))
      }
    }
  }
}

extension Provider {
  /// The target of the external URL: sign-in and consent, then `redirect?code=`, without a state.
  private func vmsPage(_ turn: Turn) -> Response {
    let form = turn.request.parameters
    let ticket = form["ticket"] ?? ""
    let (isGood, settings, approve, user) = ledger.withLock { ledger in
      (
        ledger.vms.tickets[ticket] ?? false, ledger.settings.vms, ledger.settings.approve,
        ledger.settings.defaultUser
      )
    }
    guard isGood else { return .page(.problem("This sign-in is unknown or over."), status: 400) }
    let hidden = [("ticket", ticket)]
    var name = form["login_hint"] ?? user
    if turn.request.method == .POST {
      name = form["decision"] == "allow" ? form["username"] ?? "" : "deny"
      guard name == "deny" || User(hint: name) != nil else {
        return .page(.vms(hidden, userName: name, problem: "There is no such user."), status: 422)
      }
    } else if approve == .ask, form["login_hint"] == nil {
      return .page(.vms(hidden, userName: name, problem: nil))
    }
    let person = User(hint: name)
    let code = "vmscode-\(Base64URL.random())"
    ledger.withLock { ledger in
      ledger.vms.tickets.update(ticket) { $0 = false }
      if let person { ledger.vms.pending.insert(.init(user: person, issued: turn.now), for: code) }
    }
    guard person != nil || settings.refusal == .callback else { return .page(.problem("You have refused.")) }
    let answer = person == nil ? ("error", "access_denied") : ("code", code)
    return .redirect(to: settings.redirect.adding([answer]), status: 303)
  }
}

extension Response {
  /// An error of the VMS: `message`, and `errors` where a field is to blame.
  static func vms(_ message: String, status: Int) -> Self { .json(["message": .string(message)], status: status) }

  static func vmsErrors(
    _ field: String, _ text: String, status: Int, _ shape: DemoServer.Settings.VMS.Errors
  ) -> Self {
    let errors: DemoServer.JSON = shape == .string ? .string(text) : [field: [.string(text)]]
    return .json(["message": "The given data was invalid.", "errors": errors], status: status)
  }

  static func done(_ status: Int) -> Self {
    status == 204 ? Self(status: 204) : .json([:], status: status)
  }
}

extension Page {
  fileprivate static func vms(_ hidden: [(String, String)], userName: String, problem: String?) -> Self {
    .signIn(
      title: "Sign in to the video server", action: Provider.vmsPage, hidden: hidden, userName: userName,
      problem: problem)
  }
}

extension String {
  /// This address with parameters added to its query.
  func adding(_ pairs: [(String, String)]) -> String {
    let added = Form(pairs.map { (name: $0.0, value: $0.1) }).encoded
    let parts = split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
    let fragment = parts.count > 1 ? "#\(parts[1])" : ""
    return "\(parts[0])\(parts[0].contains("?") ? "&" : "?")\(added)\(fragment)"
  }
}
