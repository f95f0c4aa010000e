import FoundationEssentials
import Grants
import OAuth

// The server's response to a sign-in: the account's credentials, or an error because too many sessions are open.
extension VMSProvider {
  /// The maximum number of sessions that one step of a login replaces automatically, if the settings allow it.
  static let mostReplaced = 3
  /// The maximum number of sessions read from a list.
  static let mostSessions = 200
  static let longestText = 256
  static let longestID = 1024
  /// The maximum size of the stored user data, in bytes.
  static let longestUser = 8 << 10

  // MARK: Credentials

  func issued(_ response: HTTPResponse, device: String?) -> Step<LoginAnswer> {
    guard let members = response.json?.dictionary else {
      return .failed(response.unusable("it is not a JSON object"))
    }
    let user = members["user"]?.dictionary ?? [:]
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
    var extra: [String: JSON] = ["user": .object(Self.kept(user))]
    extra[Memory.device] = device.map { .string($0) }
    let tokens = TokenResponse(
      accessToken: Secret(token), tokenType: "Bearer", scope: [],
      extra: Data(JSON.object(extra).serialized(sorted: true)))
    return .done(.issued(Issued(tokens: tokens, idToken: nil, identity: identity, warning: nil)))
  }

  /// User data that programs may need. The user's own token is a secret and is excluded.
  static func kept(_ user: [String: JSON]) -> [String: JSON] {
    let names = [
      "id", "name", "login", "email", "phone", "access_token_id", "permissions", "can_update_password",
    ]
    let known = user.filter { names.contains($0.key) && $0.value != .null }
    guard JSON.object(known).serialized(sorted: true).count > longestUser else { return known }
    return known.filter { name, value in
      name != "permissions" && value.serialized(sorted: true).count <= longestText && value.dictionary == nil
    }
  }

  // MARK: Sessions

  /// The maximum number of sessions is open (HTTP 419).
  func limited(_ response: HTTPResponse, _ attempt: Attempt) -> Step<LoginAnswer> {
    let value = response.json
    let members = value?.dictionary ?? [:]
    // Some servers return only the list of sessions.
    let list = members["sessions"] ?? value
    let sessions = Self.sessions(list)
    guard !sessions.isEmpty || members.text("key") != nil else {
      return .failed(
        .denied(message: "the server allows no more sessions, and names none that could be replaced (HTTP 419)"))
    }
    var next = attempt
    // A key that was redacted repeats a secret of the request: it is the code itself.
    if let key = members.text("key"), key != HTTPResponse.redacted { (next.key, next.code) = (Secret(key), nil) }
    next.hasNumbers = Self.hasNumbers(list)
    if let chosen = choice(sessions, besides: next.replaced), attempt.automatic < Self.mostReplaced {
      next.automatic += 1
      return signIn(next, replacing: chosen)
    }
    let limit = members["sessions_limit"]?.scalar.flatMap { Int64($0) }
    return .done(.action(.sessionLimit(limit: limit, sessions: sessions), memory: next.memory))
  }

  static func sessions(_ list: JSON?) -> [ProviderSession] {
    (list?.array ?? []).prefix(mostSessions).compactMap { element in
      guard let members = element.dictionary, let id = members.text("id"), id.utf8.count <= longestID else {
        return nil
      }
      func text(_ name: String) -> String? { members.text(name).map { String($0.prefix(longestText)) } }
      return ProviderSession(
        id: id, userAgent: text("user_agent"), client: text("client"), address: text("ip"),
        isOnline: members["online"]?.bool, isCurrent: members["is_current"]?.bool, lastUsed: text("last"))
    }
  }

  private static func hasNumbers(_ list: JSON?) -> Bool {
    (list?.array ?? []).contains { if case .number = $0.dictionary?["id"] { true } else { false } }
  }

  /// The session that the settings replace; nil: the user must choose.
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

  /// The least recently used session; nil if the server does not report the times.
  private static func oldest(_ sessions: [ProviderSession]) -> ProviderSession? {
    let used = sessions.filter { $0.lastUsed != nil }
    let moments = used.map { $0.lastUsed.flatMap(Double.init) }
    // Seconds or milliseconds are compared as numbers. Dates sort correctly as text.
    guard moments.contains(nil) else { return zip(used, moments).min { ($0.1 ?? 0) < ($1.1 ?? 0) }?.0 }
    return used.min { ($0.lastUsed ?? "") < ($1.lastUsed ?? "") }
  }
}
