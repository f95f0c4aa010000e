import Grants
import OAuth

// The groups of pieces. A piece comes after the pieces that it calls.
extension Broker {
  /// The release of tokens, and of requests with them.
  struct Tokens: Sendable {
    let requests: TokenRequests
    let approvals: Approvals
    let calls: AuthorizedCalls
    let credentials: CredentialOffers
    let files: FileReleases
    let hold: Hold

    @BrokerActor
    init(
      _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, engine: RefreshEngine,
      door: Door, checks: TokenChecks, tokenFiles: (any TokenFileDisk)?, keyLock: (any KeyLock)?,
      _ configuration: BrokerConfiguration
    ) {
      requests = TokenRequests(
        runtime, accounts: accounts, providers: providers, journal: journal, engine: engine,
        authorizer: door.authorizer, checks: checks)
      approvals = Approvals(
        runtime, accounts: accounts, providers: providers, authorizer: door.authorizer, audit: door.audit)
      calls = AuthorizedCalls(
        runtime, accounts: accounts, providers: providers, engine: engine, tokens: requests,
        authorizer: door.authorizer, approvals: approvals, stepUp: configuration.stepUp)
      credentials = CredentialOffers(runtime, tokens: requests, door: door, configuration.credentials)
      files = FileReleases(
        runtime, accounts: accounts, journal: journal, tokens: requests, authorizer: door.authorizer,
        audit: door.audit, requests: door.requests, disk: tokenFiles)
      hold = Hold(
        runtime, journal: journal, authorizer: door.authorizer, approvals: approvals, files: files, keyLock: keyLock)
    }
  }

  /// The broker as a client of the providers: its registrations and redirect URIs.
  struct Clients: Sendable {
    let addresses: CallbackAddresses
    let registrations: Registrations
    let resources: Resources

    @BrokerActor
    init(
      _ runtime: Runtime, providers: ProviderDirectory, accounts: Accounts, journal: Journal,
      transport: any Transport, registrar: (any Registrar)?, _ configuration: BrokerConfiguration
    ) {
      addresses = CallbackAddresses(runtime.clock, publicOrigin: configuration.publicOrigin)
      registrations = Registrations(
        runtime, providers: providers, accounts: accounts, journal: journal, addresses: addresses,
        registrar: registrar)
      resources = Resources(
        runtime, transport: transport, providers: providers, registrations: registrations,
        clientMetadata: configuration.clientMetadata)
    }
  }

  /// Logout of accounts, revocation of tokens, and the end of sessions at the provider.
  struct Logout: Sendable {
    let revocations: Revocations
    let sessions: SessionEndings
    let accounts: Logouts
    let backChannel: BackChannelLogouts

    @BrokerActor
    init(
      _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, audit: AuditLog,
      addresses: CallbackAddresses
    ) {
      revocations = Revocations(runtime, providers: providers, journal: journal)
      sessions = SessionEndings(runtime, providers: providers, addresses: addresses)
      self.accounts = Logouts(
        runtime, accounts: accounts, providers: providers, journal: journal, revocations: revocations,
        endings: sessions)
      backChannel = BackChannelLogouts(
        runtime, accounts: accounts, providers: providers, revocations: revocations, audit: audit)
    }
  }

  /// The work for administrators.
  struct Upkeep: Sendable {
    let declared: DeclaredAccounts
    let imports: Imports
    let checks: ProviderChecks
    let backups: Backups
    let repairs: Repairs
    let reloading: Reloading
    let page: (any PageOpener)?

    @BrokerActor
    init(
      _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, engine: RefreshEngine,
      door: Door, clients: Clients, logout: Logout, proofs: ImportProofs, transport: any Transport,
      administration: (any StoreAdministration)?, page: (any PageOpener)?, _ identity: BrokerIdentity,
      _ configuration: BrokerConfiguration, _ reloader: any Reloader
    ) {
      declared = DeclaredAccounts(
        runtime, accounts: accounts, providers: providers, journal: journal, revocations: logout.revocations)
      imports = Imports(
        runtime, accounts: accounts, providers: providers, journal: journal, engine: engine, logouts: logout.accounts,
        authorizer: door.authorizer, proofs: proofs)
      let examiner = ProviderExaminer(
        runtime, accounts: accounts, providers: providers, authorizer: door.authorizer, addresses: clients.addresses,
        transport: transport)
      checks = ProviderChecks(runtime, examiner: examiner, providers: providers, engine: engine)
      backups = Backups(
        runtime, accounts: accounts, providers: providers, registrations: clients.registrations, journal: journal,
        revocations: logout.revocations, authorizer: door.authorizer, audit: door.audit, identity: identity,
        administration: administration)
      repairs = Repairs(runtime, accounts: accounts, journal: journal)
      reloading = Reloading(runtime, configuration, audit: door.audit, by: reloader)
      self.page = page
    }
  }

  /// The views of the broker for its callers.
  struct Reports: Sendable {
    let views: Views
    let accounts: AccountViews
    let audit: AuditReader

    @BrokerActor
    init(
      _ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, journal: Journal, engine: RefreshEngine,
      logins: Logins, door: Door, revocations: Revocations, addresses: CallbackAddresses, reloading: Reloading,
      _ identity: BrokerIdentity
    ) {
      views = Views(
        runtime, accounts: accounts, providers: providers, engine: engine, logins: logins, revocations: revocations,
        journal: journal, door: door, addresses: addresses, reloading: reloading, identity)
      self.accounts = AccountViews(runtime, accounts: accounts, providers: providers, authorizer: door.authorizer)
      audit = AuditReader(door.audit, authorizer: door.authorizer)
    }
  }
}
