public import BrokerAPI
import Grants

// Credentials that units load from the broker (`LoadCredential=`).
extension Broker {
  /// How long a unit waits for a refresh: less than the socket has for the answer, so that the answer says why.
  private static let credentialWait = 50.0

  /// The account's access token, or its session, for a unit that is being started. Which process asks, and that it asks
  /// for that unit, has been verified; the unit's file is the word of who may write it: root's, in a system instance.
  /// The policy is asked nevertheless, as of any caller.
  public func credential(_ request: CredentialRequest) async -> Result<SecretText, RPCError> {
    var account: String?
    do throws(RPCError) {
      let offer = try offer(request)
      account = offer.account.rawValue
      let token = try await token(
        .init(
          account: offer.account.rawValue, scopes: offer.scopes, resource: offer.resource,
          min_ttl: offer.minimumTTL.map { $0 / .seconds(1) }, timeout: Self.credentialWait),
        caller: request.caller)
      // A reload may have changed what there is while the unit waited.
      guard try self.offer(request) == offer else {
        throw RPCError(
          .notPermitted, "[[credential]] \(request.id) was changed meanwhile", hint: "Start the unit again.")
      }
      guard let text = token.access_token ?? token.session_id, !text.isEmpty else {
        throw RPCError(.providerError, "account \(offer.account) has an empty token")
      }
      answered(request, account: account, .success(token))
      return .success(SecretText(text))
    } catch {
      answered(request, account: account, .failure(error))
      return .failure(error)
    }
  }

  /// After each answer: the one place that counts and records them. The account as far as it is known, and what was
  /// released, or why there was nothing for the unit.
  private func answered(
    _ request: CredentialRequest, account: String?, _ result: Result<TokenGet.Result, RPCError>
  ) {
    var entry = AuditEntry(
      action: .release, method: Self.credentialMethod, account: account, who: .init(request.caller))
    entry.detail = "\(request.id) for \(request.unit)"
    switch result {
    case .success(let token):
      entry.scopes = token.scope
      entry.generation = token.generation
      entry.provider = token.provider
      requests.answered(Self.credentialMethod, .success(.null))
    case .failure(let error):
      entry.result = (error.reason ?? .providerError).rawValue
      requests.answered(Self.credentialMethod, .failure(error))
    }
    trail.note(entry, pid: request.caller.pid)
  }

  /// What a credential is called among the methods, where they are counted and recorded.
  static let credentialMethod = "credential"

  /// What the unit may have under this id.
  private func offer(_ request: CredentialRequest) throws(RPCError) -> UnitCredentials.Offer {
    let credentials = configuration.credentials
    guard let offer = credentials.offer(request.id) else { throw unknown(request, credentials) }
    if let units = offer.units, !units.contains(where: { wildcard($0, matches: request.unit) }) {
      throw RPCError(
        .notPermitted, "[[credential]] \(offer.id) is not for \(request.unit)",
        hint: "It is for \(units.joined(separator: ", ").prefix(256)). An admin can add the unit to its `units`.")
    }
    try check(.use, method: TokenGet.name, account: offer.account.rawValue, caller: request.caller)
    return offer
  }

  private func unknown(_ request: CredentialRequest, _ credentials: UnitCredentials) -> RPCError {
    let isAccounts = request.id.hasPrefix(UnitCredentials.accountPrefix)
    var hint = "Add a [[credential]] with id = \"\(request.id)\" to the configuration and reload it"
    if isAccounts, !credentials.byAccount {
      hint += ": [credentials] has by_account = false"
    } else if !isAccounts, credentials.byAccount {
      hint += ", or load \(UnitCredentials.accountPrefix)ACCOUNT"
    }
    return RPCError(.unknownAccount, "there is no credential \(request.id)", hint: hint + ".")
  }
}
