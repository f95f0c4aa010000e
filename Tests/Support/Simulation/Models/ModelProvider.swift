import Foundation
import Grants
import OAuth
import Providers

/// An authorization server as it promises to be. It lives by the true time; nothing that it forgets comes back.
final class ModelProvider {
  enum Rotating: Equatable {
    /// The refresh token stays the same.
    case never
    /// A new one comes each time, and the old ones stay good.
    case keepsOld
    /// The old one is good for this long after its first use.
    case grace(Moment)
    /// The old one is dead at once; with `family`, its reuse kills the grant.
    case strict(family: Bool)
  }

  let index: Int
  let name: ProviderName
  var rotating: Rotating
  /// Seconds on the wire; nil: it does not say.
  var accessLifetime: Int64?
  /// The lifetime of an unused refresh token; nil: unlimited.
  var refreshLifetime: Moment?
  var saysRefreshLifetime = false
  var refreshIn: Int64?
  /// Each refresh of this number brings a new refresh token; the other answers do not contain one.
  var rotatesEvery = 1
  var latency: ClosedRange<Moment> = 20...300
  /// How far its clock is off, as its answers show.
  var dateOffset: Moment?
  /// A refresh token comes only with the first consent.
  var givesRefreshTokenOnce = false
  var isDiscovered = false

  private(set) var sessions: [Session] = []
  private var codes: [String: (account: Int, isSpent: Bool)] = [:]
  private var codeCount = 0
  var faults: [FaultWindow] = []
  /// Nil: it takes all requests.
  var limiter: RateLimiter?
  var watch = ProviderWatch()
  var sabotage: Sabotage?
  var missed = 0

  init(index: Int) {
    self.index = index
    name = ProviderName(rawValue: "p\(index)")!
    rotating = .never
  }

  var host: String { "p\(index).example" }

  /// As an admin configures it.
  var settings: ProviderSettings {
    var settings = ProviderSettings(name: name, kind: .oauth2, displayName: name.rawValue, clientID: "client")
    if isDiscovered {
      settings.server.issuer = Issuer(rawValue: "https://\(host)")
      settings.server.discovery = .oauth
    } else {
      settings.server.endpoints[.authorization] = "https://\(host)/authorize"
      settings.server.endpoints[.token] = "https://\(host)/token"
      settings.server.endpoints[.revocation] = "https://\(host)/revoke"
    }
    settings.client.credential = .post(secret: Secret("secret"))
    settings.access.scopes = ["read"]
    settings.refresh.rotation =
      switch rotating {
      case .never, .keepsOld: .none
      case .grace(let length): .grace(.milliseconds(length))
      case .strict: .strict
      }
    // The models grant each request for a resource; without this, the service would not send it at all.
    if isDeclaredToRotate { settings.refresh.narrowing = .verified }
    return settings
  }

  var isDeclaredToRotate: Bool { rotating != .never && rotating != .keepsOld }

  var isStrict: Bool { if case .strict = rotating { true } else { false } }

  var metadata: String {
    #"{"issuer":"https://\#(host)","authorization_endpoint":"https://\#(host)/authorize","#
      + #""token_endpoint":"https://\#(host)/token","revocation_endpoint":"https://\#(host)/revoke"}"#
  }

  /// For a failing seed.
  var summary: String {
    let lifetime = accessLifetime.map { "\($0) s" } ?? "no lifetime"
    var text = "\(name): rotation \(rotating), access tokens \(lifetime)"
    if let refreshLifetime { text += ", refresh tokens \(refreshLifetime / second) s" }
    if rotatesEvery > 1 { text += ", rotates every \(rotatesEvery)rd time" }
    if let limiter { text += ", one request in \(limiter.interval) ms" }
    return text + (isDiscovered ? ", discovered" : "")
  }

  // MARK: What it does

  /// The grant of a user to this client, until it ends.
  final class Session {
    let provider: Int
    let number: Int
    /// Whose it is.
    let account: Int
    var ended: End?
    var refreshTokens: [RefreshToken] = []
    var accessTokens: [AccessToken] = []
    /// Its client removed it, and will not get a refresh token by requesting the same again.
    var isForgotten = false
    /// That it has ended is on disk…
    var isEndSaved = false
    /// …and an event reported it.
    var isEndTold = false
    /// Why the broker may not have the newest refresh token, if there is a reason.
    var excuse: Excuse?
    /// That the broker waits for.
    var refreshesUnderWay = 0
    /// The refresh requests of the last minute, by resource.
    var sentAt: [String?: [Moment]] = [:]

    init(provider: Int, number: Int, account: Int) {
      self.provider = provider
      self.number = number
      self.account = account
    }

    var isAlive: Bool { ended == nil }
    var newest: Int { refreshTokens.count - 1 }
    /// The newest that the account has to keep.
    var newestKept: Int { refreshTokens.lastIndex { !$0.isForResource } ?? -1 }
  }

  enum End: String {
    /// The user withdrew the consent.
    case withdrawn
    /// The client asked for it (RFC 7009).
    case revoked
    /// A spent refresh token came again.
    case reused
  }

  enum Excuse: String {
    case lostAnswer = "an answer was lost"
    case crash = "the broker crashed between the answer and the commit"
  }

  struct RefreshToken {
    var issuedAt: Moment
    var usedAt: Moment?
    var isForResource = false
  }

  struct AccessToken {
    /// When the request that brought it was sent.
    var sentAt: Moment
    var expiresAt: Moment?
    /// The refresh token that came with it, or was the newest when it was refreshed; -1: none.
    var refreshToken: Int
    /// Which run of the broker got it.
    var run: Int
  }

  /// A user signed in before the simulation began, or does now.
  func begin(account: Int, withRefreshToken: Bool, at now: Moment) -> Session {
    let session = Session(provider: index, number: sessions.count, account: account)
    if withRefreshToken { session.refreshTokens.append(RefreshToken(issuedAt: now)) }
    sessions.append(session)
    return session
  }

  func code(for account: Int) -> String {
    codeCount += 1
    let code = "c.\(index).\(codeCount)"
    codes[code] = (account, false)
    return code
  }

  func spend(_ code: String) -> Int? {
    guard let (account, isSpent) = codes[code], !isSpent else { return nil }
    codes[code] = (account, true)
    return account
  }

  func session(_ token: Token) -> Session? {
    token.provider == index && sessions.indices.contains(token.session) ? sessions[token.session] : nil
  }

  /// Whether it would take this refresh token now.
  func accepts(_ number: Int, of session: Session, at now: Moment) -> Bool {
    guard session.isAlive, session.refreshTokens.indices.contains(number) else { return false }
    let token = session.refreshTokens[number]
    if let refreshLifetime, now - max(token.issuedAt, token.usedAt ?? 0) >= refreshLifetime { return false }
    guard let usedAt = token.usedAt else { return true }
    return switch rotating {
    case .never, .keepsOld: true
    case .grace(let length): now - usedAt < length
    case .strict: number == session.newest
    }
  }

  enum Refreshed {
    /// The access token's number, and the new refresh token's if there is one.
    case granted(access: Int, refresh: Int?)
    case refused
  }

  func refresh(_ number: Int, of session: Session, sentAt: Moment, at now: Moment, run: Int) -> Refreshed {
    guard accepts(number, of: session, at: now) else {
      let isReuse = session.refreshTokens.indices.contains(number) && session.refreshTokens[number].usedAt != nil
      if session.isAlive, isReuse, rotating == .strict(family: true) { session.ended = .reused }
      return .refused
    }
    var new: Int?
    let rotates = session.accessTokens.count % rotatesEvery == 0
    if rotating != .never, rotates || session.refreshTokens[number].usedAt != nil {
      session.refreshTokens.append(RefreshToken(issuedAt: now))
      new = session.newest
      if session.refreshTokens[number].usedAt == nil { session.refreshTokens[number].usedAt = now }
    } else if refreshLifetime != nil {
      session.refreshTokens[number].issuedAt = now
    }
    return .granted(access: grant(session, sentAt: sentAt, at: now, run: run), refresh: new)
  }

  func grant(
    _ session: Session, sentAt: Moment, at now: Moment, run: Int, withoutRefreshToken: Bool = false
  ) -> Int {
    session.accessTokens.append(
      AccessToken(
        sentAt: sentAt, expiresAt: accessLifetime.map { sentAt + $0 * second },
        refreshToken: withoutRefreshToken ? -1 : session.newest, run: run))
    return session.accessTokens.count - 1
  }
}

extension ModelProvider {
  /// The answer does not say how long this one lives.
  func hidesLifetime(ofTokenIn answer: HTTPResponse) {
    guard let token = accessToken(in: answer), let session = session(token) else { return }
    session.accessTokens[token.number].expiresAt = nil
  }

  func accessToken(in answer: HTTPResponse) -> Token? {
    let text = String(decoding: answer.body, as: UTF8.self)
    return text.firstMatch(of: #/"access_token":"([^"]+)"/#).flatMap { Token(String($0.1)) }
  }
}

/// A token's text and its meaning: `r.PROVIDER.SESSION.NUMBER` or `a.…`.
struct Token: Equatable {
  enum Kind: String { case refresh = "r", access = "a" }

  var kind: Kind
  var provider: Int
  var session: Int
  var number: Int

  init(_ kind: Kind, _ session: ModelProvider.Session, _ number: Int) {
    self.kind = kind
    provider = session.provider
    self.session = session.number
    self.number = number
  }

  init?(_ text: String) {
    let parts = text.utf8.split(separator: UInt8(ascii: "."))
    guard parts.count == 4, let kind = Kind(rawValue: String(decoding: parts[0], as: UTF8.self)),
      let provider = Int(String(decoding: parts[1], as: UTF8.self)),
      let session = Int(String(decoding: parts[2], as: UTF8.self)),
      let number = Int(String(decoding: parts[3], as: UTF8.self))
    else { return nil }
    self.kind = kind
    self.provider = provider
    self.session = session
    self.number = number
  }

  var text: String { "\(kind.rawValue).\(provider).\(session).\(number)" }
  var secret: Secret { Secret(text) }
}
