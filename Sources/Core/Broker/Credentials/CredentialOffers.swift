import BrokerAPI
import Grants
import OAuth
import Synchronization

/// Credentials that units load from the broker (`LoadCredential=`).
@BrokerActor
final class CredentialOffers: Piece {
  let runtime: Runtime
  private let tokens: TokenRequests
  private let authorizer: Authorizer
  private let audit: AuditLog
  private let requests: RequestTally
  /// What there is, also for the loop that serves the socket.
  nonisolated private let offered: Mutex<UnitCredentials>

  init(
    _ runtime: Runtime, tokens: TokenRequests, authorizer: Authorizer, audit: AuditLog, requests: RequestTally,
    _ credentials: UnitCredentials
  ) {
    self.runtime = runtime
    self.tokens = tokens
    self.authorizer = authorizer
    self.audit = audit
    self.requests = requests
    offered = Mutex(credentials)
  }

  /// A reload brought others.
  func configure(_ credentials: UnitCredentials) { offered.withLock { $0 = credentials } }

  /// How long a unit waits for a refresh: less than the socket has for the answer, so that the answer says why.
  private static let credentialWait = 50.0

  /// The account's access token, or its session, for a starting unit. The requesting process and its unit have been
  /// verified; only privileged users can write the unit's file in a system instance. The policy still decides, as for
  /// any caller.
  func credential(_ request: CredentialRequest) async -> Result<SecretText, RPCError> {
    var account: String?
    var kind: TokenKind?
    do throws(RPCError) {
      let (offer, permission) = try offer(request)
      account = offer.account.rawValue
      kind = offer.kind
      let token = try await tokens.token(
        .init(
          account: offer.account.rawValue, kind: offer.kind, scopes: offer.scopes, resource: offer.resource,
          audience: offer.audience,
          min_ttl: offer.minimumTTL.map { $0 / .seconds(1) }, timeout: Self.credentialWait),
        permission)
      // A reload may have changed what there is while the unit waited.
      guard try self.offer(request).offer == offer else {
        throw RPCError(
          .notPermitted, "[[credential]] \(request.id) was changed meanwhile", hint: "Start the unit again.")
      }
      guard let text = token.id_token ?? token.access_token ?? token.session_id, !text.isEmpty else {
        throw RPCError(.providerError, "account \(offer.account) has an empty token")
      }
      // The system's manager is root's, a user's own is the user's.
      tokens.noteHandout(
        of: offer.account, token.generation, to: request.unit, isUsers: permission.caller.uid != 0)
      answered(request, account: account, kind, .success(token))
      return .success(SecretText(text))
    } catch {
      answered(request, account: account, kind, .failure(error))
      return .failure(error)
    }
  }

  /// Called after each answer: the only place that counts and records them. The account as far as known, and the
  /// released token, or the reason for none.
  private func answered(
    _ request: CredentialRequest, account: String?, _ kind: TokenKind?, _ result: Result<TokenGet.Result, RPCError>
  ) {
    var entry = AuditEntry(
      action: kind == .idToken ? .idToken : .release, method: Self.credentialMethod, account: account,
      who: .init(request.caller))
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
    audit.note(entry, by: request.caller, isReal: account.map(audit.knows) ?? false)
  }

  /// The socket refused a connection its credential. Called on its event loop, and does not block.
  nonisolated func withheld(_ withheld: CredentialWithheld) {
    let who = withheld.caller.map { AuditEntry.Who($0) } ?? .init(uid: nil)
    let account = withheld.id.flatMap { id in offered.withLock { $0.offer(id)?.account.rawValue } }
    var entry = AuditEntry(action: .release, method: Self.credentialMethod, account: account, who: who)
    switch withheld.cause {
    case .foreign: entry.result = ErrorReason.notPermitted.rawValue
    case .undelivered: entry.result = AuditEntry.notDelivered
    }
    var detail = withheld.message
    if let id = withheld.id, let unit = withheld.unit { detail = "\(id) for \(unit): \(detail)" }
    entry.detail = detail.printable(limit: Limit.auditDetail)
    // An unverified connection can invent its name, even that of an existing account.
    let isReal = withheld.cause == .undelivered && account.map(audit.knows) ?? false
    audit.note(entry, by: withheld.caller, isReal: isReal)
  }

  /// The method name of a credential, for counts and records.
  nonisolated static let credentialMethod = "credential"

  /// The unit's value under this id.
  private func offer(
    _ request: CredentialRequest
  ) throws(RPCError) -> (offer: UnitCredentials.Offer, permission: Permission) {
    let credentials = offered.withLock { $0 }
    guard let offer = credentials.offer(request.id) else { throw unknown(request, credentials) }
    if let units = offer.units, !units.contains(where: { wildcard($0, matches: request.unit) }) {
      throw RPCError(
        .notPermitted, "[[credential]] \(offer.id) is not for \(request.unit)",
        hint: "It is for \(units.joined(separator: ", ").prefix(256)). An admin can add the unit to its `units`.")
    }
    let permission = try authorizer.authorize(
      .unit(request.unit, manager: request.caller), TokenGet.access(of: offer.kind), TokenGet.name,
      account: offer.account.rawValue)
    try authorizer.checkUnasked(permission, "a unit that starts")
    return (offer, permission)
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
