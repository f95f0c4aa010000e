import BrokerAPI
import Grants
import OAuth

// Which of an account's tokens a request is for.
extension Accounts {
  /// Which of the account's tokens serves this request: its own where that is what is asked for, else a narrowed one.
  /// A grant that cannot be renewed, and a provider that does not narrow, have the one token alone.
  func key(scopes: [String]?, resource: String?, _ grant: Grant) throws(RPCError) -> SavedToken.Key {
    let saved = grant.saved
    if let resource {
      guard ResourceIndicator.isValid(resource) else {
        throw .invalidParams("params.resource: expected an absolute URI without a fragment (RFC 8707 §2)")
      }
    }
    guard (scopes ?? []).count <= Limit.scopes, (scopes ?? []).allSatisfy(Self.isScope) else {
      throw .invalidParams("params.scopes: expected at most \(Limit.scopes) texts without spaces and quotes")
    }
    let asked = Set(scopes ?? [])
    let known = Set(saved.grantedScopes).union(saved.requestedScopes)
    // RFC 6749 §6: nothing that was not granted by the person.
    let missing = asked.subtracting(known)
    let isOpen = saved.kind.isUnattended && known.isEmpty
    guard missing.isEmpty || isOpen else { throw notGranted(grant, missing.sorted()) }
    let other = resource.flatMap { $0 == saved.resource ? nil : $0 }
    let isWhole = asked.isEmpty || asked == Set(saved.grantedScopes)
    if isWhole, other == nil { return SavedToken.Key() }
    let narrowing = providers[saved.provider]?.narrowing(of: saved) ?? .unavailable
    guard saved.isRenewable, narrowing != .unavailable else {
      guard other == nil else { throw otherResource(saved) }
      return SavedToken.Key()
    }
    let key = SavedToken.Key(scopes: isWhole ? nil : scopes, resource: other)
    // The server refused to exchange the token, so the account's own is all there is.
    if narrowing == .exchange, other == nil, grant.isRefused(key, at: now) { return SavedToken.Key() }
    return key
  }

  private func otherResource(_ saved: SavedGrant) -> RPCError {
    let signedIn = saved.resource.map { "resource \($0)" } ?? "no particular resource"
    let obstacle = saved.isRenewable ? providers[saved.provider]?.narrowingObstacle : nil
    return RPCError(
      .scopeNotGranted,
      "account \(saved.account) was signed in for \(signedIn)" + (obstacle.map { "; \($0)" } ?? ""),
      hint: "Sign in to a separate account for the resource: `grantctl login \(saved.provider) NAME --resource …`.")
  }

  /// RFC 6749 §3.3.
  private static func isScope(_ text: String) -> Bool {
    !text.isEmpty && text.utf8.count <= 1024
      && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
  }

  func notGranted(_ grant: Grant, _ missing: [String]) -> RPCError {
    RPCError(
      .scopeNotGranted, "account \(grant.saved.account) was not granted \(missing.joined(separator: " ").prefix(200))",
      hint: "Sign in again with all the scopes that are needed: `grantctl login \(grant.saved.provider) "
        + "\(grant.saved.account) --scope …`.")
  }

  func notGranted(_ grant: Grant, _ key: SavedToken.Key, _ failure: Failure) -> RPCError {
    let what = [key.scope, key.resource].filter { !$0.isEmpty }.joined(separator: " for ").prefix(200)
    return RPCError(
      .scopeNotGranted, "the provider gives account \(grant.saved.account) no token of \(what): \(failure.message)",
      hint: "Ask for other scopes or another resource, or without both for all that was granted.",
      oauth: failure.oauth.map { OAuthDetail($0) })
  }
}
