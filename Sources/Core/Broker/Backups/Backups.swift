import Grants
import OAuth
import Principals

/// The state as admins copy it, bring it back and seal it under another key.
@BrokerActor
final class Backups: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let providers: ProviderDirectory
  let registrations: Registrations
  let journal: Journal
  let revocations: Revocations
  let authorizer: Authorizer
  let audit: AuditLog
  let identity: BrokerIdentity
  let administration: (any StoreAdministration)?
  var transfers = Transfers()
  /// The connections that backups go over. Each is held, so that no other has its name.
  var sessions: [ObjectIdentifier: any Session] = [:]

  init(
    _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, registrations: Registrations,
    journal: Journal, revocations: Revocations, authorizer: Authorizer, audit: AuditLog, identity: BrokerIdentity,
    administration: (any StoreAdministration)?
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.registrations = registrations
    self.journal = journal
    self.revocations = revocations
    self.authorizer = authorizer
    self.audit = audit
    self.identity = identity
    self.administration = administration
  }

  func policyChanged() { transfers.removeOutgoing() }

  func tick() { transfers.removeIdle(at: uptime) }
}
