import Grants
import OAuth
import Principals

/// Releases that wait for approval, and approvals for a time.
@BrokerActor
final class Approvals: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  let authorizer: Authorizer
  let audit: AuditLog
  var releases = PendingReleases()
  /// The connections that releases came by. Each is held, so that no other has its name.
  var sessions: [ObjectIdentifier: (session: any Session, ids: Set<String>)] = [:]

  init(_ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, authorizer: Authorizer, audit: AuditLog) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.authorizer = authorizer
    self.audit = audit
  }

  func policyChanged() {
    releases.clearApprovals()
    wakeAll()
  }
}
