import Foundation
import Grants
import OAuth

/// Everything happens around this moment; a test's times are seconds from it.
let start = Timestamp(seconds: 1_800_000_000)

func at(_ seconds: Double) -> Timestamp { start + .milliseconds(Int64(seconds * 1000)) }

let account = AccountName(rawValue: "work")!
let providerName = ProviderName(rawValue: "example")!

/// A policy whose moments are easy to reckon with: no jitter.
let steady: RefreshPolicy = {
  var policy = RefreshPolicy()
  policy.jitter = 0
  return policy
}()

func savedGrant(
  refreshToken: String? = "refresh-1", previous: String? = nil, generation: Int64 = 1, standing: Standing = .good,
  scopes: [String] = ["openid", "mail"]
) -> SavedGrant {
  SavedGrant(
    account: account, provider: providerName, identity: nil, requestedScopes: scopes, grantedScopes: scopes,
    refreshToken: refreshToken.map(Secret.init), previousRefreshToken: previous.map(Secret.init), idToken: nil,
    generation: generation, standing: standing, createdAt: start, loggedInAt: start)
}

/// A token of this lifetime in seconds, issued at `issued` seconds; nil: it does not say.
func savedToken(
  lifetime: Double? = 3600, issued: Double = 0, refreshIn: Double? = nil, generation: Int64 = 1
) -> SavedToken {
  SavedToken(
    account: account, accessToken: Secret("access-\(generation)"), type: "Bearer", scopes: ["openid", "mail"],
    generation: generation, issuedAt: at(issued), expiresAt: lifetime.map { at(issued + $0) },
    refreshAt: refreshIn.map { at(issued + $0) })
}

func grant(
  _ saved: SavedGrant = savedGrant(), _ token: SavedToken? = savedToken(), intent: RefreshIntent? = nil
) -> Grant {
  Grant(saved: saved, token: token, intent: intent, jitter: 0)
}

/// What a provider answered, every check done.
func issued(
  access: String = "access-2", refresh: String? = nil, lifetime: Int? = 3600, more: [String: String] = [:]
) -> Issued {
  var members = more
  members["access_token"] = "\"\(access)\""
  members["token_type"] = "\"Bearer\""
  members["refresh_token"] = refresh.map { "\"\($0)\"" }
  members["expires_in"] = lifetime.map(String.init)
  let body = "{" + members.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",") + "}"
  let quirks = TokenResponseQuirks(keepMembers: ["instance_url"])
  let response = HTTPResponse(
    status: 200, headers: [.init("Content-Type", "application/json")], body: Data(body.utf8))
  return Issued(
    tokens: try! TokenResponse.parse(response, quirks: quirks), idToken: nil, identity: nil, warning: nil)
}

extension Grant {
  /// Begins a refresh that must be possible.
  mutating func begun(at now: Timestamp) -> Attempt {
    guard case .begun(let attempt, _) = beginRefresh(at: now) else { fatalError("no refresh could begin") }
    return attempt
  }

  /// A whole refresh that succeeds.
  mutating func refreshed(_ issued: Issued, at now: Timestamp, rotation: Rotation = .strict) {
    let attempt = begun(at: now)
    _ = answered(attempt, issued, rotation: rotation, refreshTokenLifetime: nil)
    _ = committed(attempt, jitter: 0)
  }

  mutating func failed(
    _ failure: ProviderFailure, at now: Timestamp, rotation: Rotation = .strict, policy: RefreshPolicy = steady
  ) -> Failed {
    failed(begun(at: now), failure, at: now, policy: policy, jitter: 0, rotation: rotation)
  }
}

let invalidGrant = ProviderFailure.ended(.refused, message: "invalid_grant", OAuthError(code: .invalidGrant))
