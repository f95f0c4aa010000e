import FoundationEssentials
import Grants
import OAuth

// What the server answers to a sign-in: the account's credentials, or that it allows no more sessions.
extension VMSProvider {
  /// How many sessions one step of a login replaces by itself, where the settings say so.
  static let mostReplaced = 3
  /// What is read of a list of sessions.
  static let mostSessions = 200
  static let longestText = 256
  static let longestID = 1024
  /// What is kept of a user, in bytes.
  static let longestUser = 8 << 10

  // MARK: Credentials

  func issued(_ response: HTTPResponse, device: String?) -> Step<LoginAnswer> {
    guard let members = response.json?.members else {
      return .failed(response.unusable("it is no JSON object"))
    }
    let user = members["user"]?.members ?? [:]
    guard let token = members.text("access_token") ?? user.text("token") else {
      return .failed(.invalid(message: "the server's answer has no access_token", nil))
    }
    guard let id = user.text("id") else {
      return .failed(.invalid(message: "the server does not say who signed in: its answer has no user.id", nil))
    }
    func text(_ name: String) -> String? { user.text(name).map { String($0.prefix(Self.longestText)) } }
    let identity = Identity(
      subject: String(id.prefix(Self.longestText)), email: text("email"), name: text("name"),
      username: text("login"))
    var extra: [String: JSONValue] = ["user": .object(Self.kept(user))]
    extra[Memory.device] = device.map { .string($0) }
    let tokens = TokenResponse(
      accessToken: Secret(token), tokenType: "Bearer", scope: [],
      extra: Data(JSONValue.object(extra).serialized.utf8))
    return .done(.issued(Issued(tokens: tokens, idToken: nil, identity: identity, warning: nil)))
  }

  /// What programs may want to know of the user; the user's own token is a secret, and is not among it.
  static func kept(_ user: [String: JSONValue]) -> [String: JSONValue] {
    let names = [
      "id", "name", "login", "email", "phone", "access_token_id", "permissions", "can_update_password",
    ]
    let known = user.filter { names.contains($0.key) && $0.value != .null }
    guard JSONValue.object(known).serialized.utf8.count > longestUser else { return known }
    return known.filter { name, value in
      name != "permissions" && value.serialized.utf8.count <= longestText && value.members == nil
    }
  }

  // MARK: Sessions

  /// As many sessions are open as the server allows (HTTP 419).
  func limited(_ response: HTTPResponse, _ attempt: Attempt) -> Step<LoginAnswer> {
    let value = response.json
    let members = value?.members ?? [:]
    // Some servers answer with nothing but the sessions.
    let list = members["sessions"] ?? value
    let sessions = Self.sessions(list)
    guard !sessions.isEmpty || members.text("key") != nil else {
      return .failed(
        .denied(message: "the server allows no more sessions, and names none that could be replaced (HTTP 419)"))
    }
    var next = attempt
    // One that the request said already was taken out of the answer: then it is the code itself.
    if let key = members.text("key"), key != HTTPResponse.redacted { (next.key, next.code) = (Secret(key), nil) }
    next.hasNumbers = Self.hasNumbers(list)
    if let chosen = choice(sessions, besides: next.replaced), attempt.automatic < Self.mostReplaced {
      next.automatic += 1
      return signIn(next, replacing: chosen)
    }
    let limit = members["sessions_limit"]?.scalar.flatMap { Int64($0) }
    return .done(.action(.sessionLimit(limit: limit, sessions: sessions), memory: next.memory))
  }

  static func sessions(_ list: JSONValue?) -> [ProviderSession] {
    (list?.elements ?? []).prefix(mostSessions).compactMap { element in
      guard let members = element.members, let id = members.text("id"), id.utf8.count <= longestID else { return nil }
      func text(_ name: String) -> String? { members.text(name).map { String($0.prefix(longestText)) } }
      return ProviderSession(
        id: id, userAgent: text("user_agent"), client: text("client"), address: text("ip"),
        isOnline: members["online"]?.flag, isCurrent: members["is_current"]?.flag, lastUsed: text("last"))
    }
  }

  private static func hasNumbers(_ list: JSONValue?) -> Bool {
    (list?.elements ?? []).contains { if case .number = $0.members?["id"] { true } else { false } }
  }

  /// The session that the settings would replace; nil: the person has to choose.
  private func choice(_ sessions: [ProviderSession], besides replaced: [String]) -> String? {
    let others = sessions.filter { $0.isCurrent != true && !replaced.contains($0.id) }
    switch settings.replacing {
    case nil: return nil
    case .oldest: return Self.oldest(others)?.id
    case .offline:
      let offline = others.filter { $0.isOnline == false }
      return (Self.oldest(offline) ?? offline.first)?.id
    }
  }

  /// The one that was used the longest time ago; nil where the server does not say.
  private static func oldest(_ sessions: [ProviderSession]) -> ProviderSession? {
    let used = sessions.filter { $0.lastUsed != nil }
    let moments = used.map { $0.lastUsed.flatMap(Double.init) }
    // Seconds or milliseconds are compared as numbers; dates are written so that they sort as texts.
    guard moments.contains(nil) else { return zip(used, moments).min { ($0.1 ?? 0) < ($1.1 ?? 0) }?.0 }
    return used.min { ($0.lastUsed ?? "") < ($1.lastUsed ?? "") }
  }
}
