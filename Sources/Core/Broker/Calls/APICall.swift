import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

// Shared by `request.send`, which collects the answer, and forwarded requests, which stream it.
extension AuthorizedCalls {
  // MARK: The destination

  /// The destination: only the provider's own servers, since the token is sent there.
  func address(_ text: String, _ provider: any Provider) throws(RPCError) -> URL {
    guard !provider.apiTraits.origins.isEmpty else {
      throw RPCError(
        .unsupportedByProvider, "provider \(provider.description.displayName) has no address for authorised calls",
        hint: "Set api_base or api_origins in \(provider.section), then run `grantctl reload`.")
    }
    do throws(Objection) {
      return try provider.apiTraits.resolve(text)
    } catch {
      throw .invalidParams(error)
    }
  }

  /// The destination of a request. It stays the same across reloads.
  func url(of forward: ForwardRequest) throws(RPCError) -> String {
    let provider = try provider(of: accountName(forward.account))
    guard let host = forward.host else { return try address(forward.target, provider).absoluteString }
    let traits = provider.apiTraits
    let wanted = host.lowercased()
    let origin = traits.origins.sorted(by: >).first { origin in
      let place = origin.drop { $0 != "/" }.drop { $0 == "/" }
      let standard = origin.hasPrefix("http:") ? ":80" : ":443"
      return place == wanted || place == wanted + standard
    }
    // Sorted so that https comes first.
    guard let origin else {
      throw RPCError(
        .unsupportedByProvider, "the account's token must not go to \(host.printable(limit: 128))",
        hint: "Allowed are: \(traits.origins.sorted().joined(separator: ", ")). An admin can add to api_origins.")
    }
    return origin + forward.target
  }

  /// A request in the form for rules. One without a destination has no host, and matches only patterns without one.
  func apiRequest(_ method: String, _ url: String, of account: String) -> APIRequest {
    let traits = AccountName(rawValue: account).flatMap { accounts[$0] }.flatMap {
      providers[$0.saved.provider]?.provider.apiTraits
    }
    guard let address = try? traits?.resolve(url) else {
      return APIRequest(method: method, host: "", path: String(url.prefix { $0 != "?" && $0 != "#" }))
    }
    return APIRequest(method: method, url: address)
  }

  // MARK: A refused token

  /// Replaces a token that a server refused, unless that has happened since.
  ///
  /// - Parameters:
  ///   - message: the server's words.
  ///   - isProvidersWord: whether the refusal says that the token is invalid, and not only that it is not for that
  ///     server.
  /// - Throws: if the provider considers the token valid.
  func replace(
    _ token: SavedToken, for question: Question, _ message: String, _ oauth: OAuthError?, isProvidersWord: Bool
  ) async throws(RPCError) {
    // A fresh token would be another server's.
    try checkUnmoved(question)
    let account = question.account
    // Another login starts the generations again, so compare the tokens and not their numbers.
    guard accounts[account]?.token?.accessToken == token.accessToken else { return }
    let left = max(0, Double((question.deadline - uptime).milliseconds) / 1000)
    let report = try await tokens.reportRejected(
      .init(account: account.rawValue, generation: token.generation, timeout: left), by: question.asker,
      isProvidersWord: isProvidersWord)
    if report.confirmed == true, let saved = accounts[account]?.saved { throw refusedThough(saved, message, oauth) }
  }

  /// The token cannot be renewed. It was refused here, and the provider considers it valid.
  private func refusedThough(_ saved: SavedGrant, _ message: String, _ oauth: OAuthError?) -> RPCError {
    RPCError(
      .providerError,
      "the token of account \(saved.account) was refused, but provider \(saved.provider) considers it valid: \(message)",
      hint: "The account may lack a permission for this request. Otherwise: \(accounts.loginHint(saved))",
      oauth: oauth.map { OAuthDetail($0) })
  }

  func refusedAgain(_ saved: SavedGrant, _ message: String, _ oauth: OAuthError?) -> RPCError {
    RPCError(
      .providerError, "provider \(saved.provider) refuses a fresh token of account \(saved.account) too: \(message)",
      hint: saved.kind.isUnattended
        ? "See whether [account.\(saved.account)] has the scopes that this needs."
        : "\(accounts.loginHint(saved)) Name the scopes that this needs with --scope.",
      oauth: oauth.map { OAuthDetail($0) })
  }

  /// The token lacks scopes that only a login can bring.
  func lacksScopes(_ question: Question, _ message: String) -> RPCError {
    RPCError(
      .loginRequired, "provider \(question.name): \(message)",
      hint: accounts[question.account].map { "\(accounts.loginHint($0.saved)) Ask for all scopes with --scope." })
  }
}

extension APIRequest {
  init(method: String, url: URL) {
    let origin = HTTPRequest(purpose: .resource, method: method, url: url).origin
    let (scheme, place) = (origin.prefix { $0 != ":" }, origin.drop { $0 != "/" }.drop { $0 == "/" })
    let standard = scheme == "http" ? ":80" : ":443"
    let path = url.path(percentEncoded: true)
    self.init(
      method: method, host: String(place.hasSuffix(standard) ? place.dropLast(standard.utf8.count) : place),
      path: path.isEmpty ? "/" : path)
  }
}
