import BrokerAPI
import Grants
import OAuth
import Principals
import Synchronization

/// Credentials that units load from the broker (`LoadCredential=`).
@BrokerActor
final class CredentialOffers: Piece {
  let runtime: Runtime
  private let tokens: TokenRequests
  private let door: Door
  /// What there is, also for the loop that serves the socket.
  nonisolated private let offered: Mutex<UnitCredentials>

  init(
    _ runtime: Runtime, tokens: TokenRequests, door: Door, _ credentials: UnitCredentials
  ) {
    self.runtime = runtime
    self.tokens = tokens
    self.door = door
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
    let found: Result<UnitCredentials.Offer, RPCError>
    do throws(RPCError) { found = .success(try offer(request)) } catch { found = .failure(error) }
    let use = use(request, found)
    switch found {
    case .failure(let error):
      door.refuse(use, error, request.principal)
      return .failure(error)
    case .success: return await door.pass(use, by: StartingUnit(request)).map(\.text)
    }
  }

  /// Not paced: the system's manager starts all units, and the socket limits the others.
  private func use(
    _ request: CredentialRequest, _ found: Result<UnitCredentials.Offer, RPCError>
  ) -> Use<TokenGet, Issued> {
    let params = found.map { offer in
      TokenGet.Params(
        account: offer.account.rawValue, kind: offer.kind, scopes: offer.scopes, resource: offer.resource,
        audience: offer.audience, min_ttl: offer.minimumTTL.map { $0 / .seconds(1) }, timeout: Self.credentialWait)
    }
    return Use(
      name: Self.credentialMethod, isPaced: false, detail: "\(request.id) for \(request.unit)",
      params: { () throws(RPCError) in try params.get() },
      work: { [self] call throws(RPCError) in
        try door.authorizer.checkUnasked(call.permission, "a unit that starts")
        let offer = try found.get()
        let token = try await tokens.token(call.account, call.params, call.permission)
        // A reload may have changed what there is while the unit waited.
        guard try self.offer(request) == offer else {
          throw RPCError(
            .notPermitted, "[[credential]] \(request.id) was changed meanwhile", hint: "Start the unit again.")
        }
        try door.authorizer.checkUnasked(try door.authorizer.renewed(call.permission), "a unit that starts")
        guard let text = token.id_token ?? token.access_token ?? token.session_id, !text.isEmpty else {
          throw RPCError(.providerError, "account \(offer.account) has an empty token")
        }
        // The system's manager is root's, a user's own is the user's.
        tokens.recordHandout(
          of: offer.account, token.generation, to: request.unit, isUsers: call.caller.uid != 0)
        return Issued(token: token, text: SecretText(text))
      }, recorded: \.token)
  }

  private struct Issued: Sendable {
    let token: TokenGet.Result
    let text: SecretText
  }

  /// The socket refused a connection its credential. Called on its event loop, and does not block.
  nonisolated func withheld(_ withheld: CredentialWithheld) {
    // The connecting process: the unit that it names is not verified.
    let caller = withheld.caller.map(Principal.process)
    let who = caller.map { AuditCaller($0) } ?? .init(uid: nil)
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
    let isReal = withheld.cause == .undelivered && account.map(door.audit.knows) ?? false
    door.audit.record(entry, by: caller, isReal: isReal)
  }

  /// The method name of a credential, for counts and records.
  nonisolated static let credentialMethod = "credential"

  /// The unit's value under this id.
  private func offer(_ request: CredentialRequest) throws(RPCError) -> UnitCredentials.Offer {
    let credentials = offered.withLock { $0 }
    guard let offer = credentials.offer(request.id) else { throw unknown(request, credentials) }
    if let units = offer.units, !units.contains(where: { wildcard($0, matches: request.unit) }) {
      throw RPCError(
        .notPermitted, "[[credential]] \(offer.id) is not for \(request.unit)",
        hint: "It is for \(units.joined(separator: ", ").prefix(256)). An admin can add the unit to its `units`.")
    }
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

/// A unit that starts, as a caller: it gets one answer.
private final class StartingUnit: Session {
  let principal: Principal

  init(_ request: CredentialRequest) { principal = request.principal }

  var isReading: Bool { true }
  func notify(method: String, params: JSON) -> Bool { false }
  func holdOpen() {}
  func onClose(_ action: @escaping @Sendable () -> Void) {}
}
