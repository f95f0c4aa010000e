import BrokerAPI
import Grants
import OAuth

// Which of an account's tokens a request is for.
extension Accounts {
  /// The key of the account's token for this request: the account's own, or a narrowed one. A grant without renewal, or
  /// a provider without narrowing, has only its one token.
  func key(
    scopes: [String]?, resource: String?, audience: String? = nil, _ grant: Grant
  ) throws(RPCError) -> SavedToken.Key {
    let saved = grant.saved
    let parameter = providers[saved.provider]?.provider.tokenTraits.audienceParameter
    if let audience {
      guard TokenAudience.isValid(audience) else {
        throw .invalidParams(
          "params.audience: expected 1 to \(TokenAudience.longestName) printable characters without spaces and quotes")
      }
      guard parameter != .resource else {
        guard resource == nil || resource == audience, ResourceIndicator.isValid(audience) else {
          throw .invalidParams(
            "params.audience: provider \(saved.provider) takes one absolute URI, as resource (RFC 8707)")
        }
        return try key(scopes: scopes, resource: audience, grant)
      }
    }
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
    // RFC 6749 §6: only scopes that the user granted.
    let missing = asked.subtracting(known)
    let isOpen = saved.kind.isUnattended && known.isEmpty
    guard missing.isEmpty || isOpen else { throw notGranted(grant, missing.sorted()) }
    let other = resource.flatMap { $0 == saved.resource ? nil : $0 }
    let isWhole = asked.isEmpty || asked == Set(saved.grantedScopes)
    let wanted = audience.flatMap { name in
      name == saved.audience ? nil : TokenAudience(name, parameter == .audience ? .parameter : .exchange)
    }
    if isWhole, other == nil, wanted == nil { return SavedToken.Key() }
    let narrowing = providers[saved.provider]?.narrowing(of: saved) ?? .unavailable
    guard saved.isRenewable, narrowing != .unavailable else {
      if let wanted { throw otherAudience(saved, wanted.name) }
      guard other == nil else { throw otherResource(saved) }
      return SavedToken.Key()
    }
    if let wanted, wanted.form == .exchange, !canExchange(saved) { throw otherAudience(saved, wanted.name) }
    let key = SavedToken.Key(scopes: isWhole ? nil : scopes, resource: other, audience: wanted)
    // The server refused to exchange the token, so the account's own is all there is.
    if narrowing == .exchange, other == nil, wanted == nil, grant.isRefused(key, at: now) { return SavedToken.Key() }
    return key
  }

  /// The key of an ID token for another audience than the client.
  func idTokenKey(audience: String, _ grant: Grant) throws(RPCError) -> SavedToken.Key {
    guard TokenAudience.isValid(audience) else {
      throw .invalidParams(
        "params.audience: expected 1 to \(TokenAudience.longestName) printable characters without spaces and quotes")
    }
    guard canExchange(grant.saved) else { throw otherAudience(grant.saved, audience, isIDToken: true) }
    return SavedToken.Key(audience: TokenAudience(audience, .idToken))
  }

  /// Without metadata, the attempt fetches them.
  private func canExchange(_ saved: SavedGrant) -> Bool {
    guard let connection = providers[saved.provider], saved.isRenewable,
      connection.provider.refreshTraits.narrowing != .never
    else { return false }
    return connection.metadata.known.map { ProviderConnection.supportsExchange($0.value) } ?? true
  }

  private func otherAudience(_ saved: SavedGrant, _ audience: String, isIDToken: Bool = false) -> RPCError {
    let name = audience.printable(limit: 200)
    guard !isIDToken else {
      return RPCError(
        .unsupportedByProvider,
        "provider \(saved.provider) issues no ID token for the audience \(name): it supports no token exchange",
        hint: "Configure the server to accept the client's ID as audience, or use a provider with RFC 8693.")
    }
    guard providers[saved.provider]?.provider.tokenTraits.audienceParameter == nil else {
      let obstacle = providers[saved.provider]?.narrowingObstacle ?? "the account has no refresh token"
      return RPCError(
        .scopeNotGranted, "account \(saved.account) has no token for the audience \(name): \(obstacle)",
        hint: "Sign in to a separate account for it: `grantctl login \(saved.provider) NAME --audience …`.")
    }
    return RPCError(
      .unsupportedByProvider, "provider \(saved.provider) takes no audience, so there is no token for \(name)",
      hint: "If it takes one, set audience_parameter in \(saved.provider.section), then sign in again.")
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
    let saved = grant.saved
    return RPCError(
      .scopeNotGranted, "account \(saved.account) was not granted \(missing.joined(separator: " ").prefix(200))",
      hint: missingHint(saved, missing))
  }

  /// How the account gets these scopes, or a token without them.
  private func missingHint(_ saved: SavedGrant, _ missing: [String]) -> String {
    let without = "Without: `grantctl token \(saved.account)`."
    if saved.kind.isUnattended {
      return "Add to `scopes` in [account.\(saved.account)], then run `grantctl reload`. \(without)"
    }
    let login = HintedCommand.login(saved, adding: missing)
    let others = providers[saved.provider]?.metadata.known?.value.misspelled(missing) ?? []
    guard others.isEmpty else {
      return "Provider \(saved.provider) does not list \(others.joined(separator: " ").prefix(200)). \(without) "
        + "If the provider has it: `\(login)`."
    }
    return "Sign in again with all the scopes that are needed: `\(login)`. \(without)"
  }

  func notGranted(_ grant: Grant, _ key: SavedToken.Key, _ failure: FailureRecord) -> RPCError {
    let what = [key.scope, key.place ?? ""].filter { !$0.isEmpty }.joined(separator: " for ").prefix(200)
    return RPCError(
      .scopeNotGranted, "the provider gives account \(grant.saved.account) no token of \(what): \(failure.message)",
      hint: "Ask for other scopes or another resource, or for all that was granted: `grantctl token "
        + "\(grant.saved.account)`.",
      oauth: failure.oauth.map { OAuthDetail($0) })
  }
}
