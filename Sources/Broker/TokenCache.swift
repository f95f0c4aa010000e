public import BrokerAPI
import Foundation
import Grants
import OAuth
import Synchronization

/// The tokens that can be handed out without asking the broker, rendered once each. Read on the event loop that serves
/// the socket, so everything in here is short.
public final class TokenCache: Sendable {
  struct Entry: Sendable {
    let body: CachedReply.Body
    /// Milliseconds since the machine started, so that setting the wall clock changes nothing; nil: unknown, so good
    /// until it is refused.
    let expiresAt: Int64?
    let lifetime: Duration
    /// Without a wish of the caller, the token is served until here.
    let servedUntil: Int64
  }

  private struct State {
    var entries: [String: Entry] = [:]
    var policy: Policy
    var refresh = RefreshPolicy()
    var isOpen = true
    var served: UInt64 = 0
  }

  private let state: Mutex<State>
  private let uptime: @Sendable () -> Duration

  init(policy: Policy, uptime: @escaping @Sendable () -> Duration) {
    state = Mutex(State(policy: policy))
    self.uptime = uptime
  }

  /// The reply to a plain `token.get`, or nil where the broker itself must answer.
  public func reply(account: String, minTTL: Int64?, caller: Caller) -> CachedReply? {
    state.withLock { state in
      guard state.isOpen, let entry = state.entries[account],
        state.policy.allowsWhole(TokenGet.name, account: account, caller: caller)
      else { return nil }
      guard let expiresAt = entry.expiresAt else {
        state.served &+= 1
        return CachedReply(body: entry.body, expiresIn: nil)
      }
      let now = uptime().milliseconds
      var servedUntil = entry.servedUntil
      if let minTTL {
        let floor = state.refresh.floor(.seconds(min(minTTL, 1_000_000_000)), lifetime: entry.lifetime)
        servedUntil = expiresAt - floor.milliseconds
      }
      guard now < servedUntil else { return nil }
      state.served &+= 1
      return CachedReply(body: entry.body, expiresIn: (expiresAt - now) / 1000)
    }
  }

  /// How many replies there were.
  var served: UInt64 { state.withLock { $0.served } }

  func set(_ account: AccountName, _ entry: Entry?) {
    state.withLock { $0.entries[account.rawValue] = entry }
  }

  func configure(policy: Policy, refresh: RefreshPolicy) {
    state.withLock {
      $0.policy = policy
      $0.refresh = refresh
    }
  }

  func close() {
    state.withLock {
      $0.isOpen = false
      $0.entries = [:]
    }
  }
}

extension TokenCache.Entry {
  init(
    _ token: SavedToken, grant: SavedGrant, about: ProviderAbout?, policy: RefreshPolicy, at now: Timestamp,
    _ uptime: Duration
  ) {
    let lifetime = token.expiresAt.map { $0 - token.issuedAt } ?? .zero
    let expiresAt = token.expiresAt.map { (uptime + ($0 - now)).milliseconds }
    self.expiresAt = expiresAt
    self.lifetime = lifetime
    servedUntil = expiresAt.map { $0 - policy.floor(nil, lifetime: lifetime).milliseconds } ?? .max
    body = CachedReply.Body(TokenGet.Result(token, grant: grant, about: about, at: nil))
  }
}

extension CachedReply.Body {
  /// Renders a result, leaving a hole where `expires_in` goes.
  convenience init(_ result: TokenGet.Result) {
    guard result.expires_at != nil, case .object(var members) = JSON(encoding: result) else {
      self.init(head: JSON(encoding: result).serialized(), tail: [])
      return
    }
    members.removeAll { $0.name == "expires_in" }
    // Where the result itself has it: right behind `expires_at`.
    let place = (members.firstIndex { $0.name == "expires_at" } ?? 0) + 1
    let head = JSON.object(Array(members[..<place])).serialized()
    let tail = JSON.object(Array(members[place...])).serialized()
    self.init(
      head: head.dropLast() + Array(",\"expires_in\":".utf8), tail: [UInt8(ascii: ",")] + tail.dropFirst())
  }
}

extension TokenGet.Result {
  /// The token as the socket hands it out; `at` nil leaves `expires_in` out.
  init(_ token: SavedToken, grant: SavedGrant, about: ProviderAbout?, at now: Timestamp?) {
    // Exposed to be handed out: this is what the broker is for.
    let secret = token.accessToken.exposed
    let extra = grant.extra.flatMap { try? JSON.parse(Array($0)) }.flatMap { try? $0.decode([String: JSON].self) }
    self.init(
      access_token: secret, token_type: token.type, expires_at: token.expiresAt?.seconds,
      expires_in: now.flatMap { now in token.expiresAt.map { max(0, ($0 - now).wholeSeconds) } },
      scope: token.scopes, account: grant.account.rawValue, provider: grant.provider.rawValue, issuer: about?.issuer,
      generation: token.generation,
      dpop_thumbprint: token.type == "DPoP" ? grant.dpopKey.flatMap(DPoPKey.init(raw:))?.thumbprint : nil,
      extra: extra?.isEmpty == false ? extra : nil)
    guard token.type == SavedToken.session else { return }
    access_token = nil
    token_type = nil
    kind = SavedToken.session
    session_id = secret
    cookie = about?.sessionCookie.map { "\($0)=\(secret)" }
  }
}
