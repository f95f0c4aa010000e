import BrokerAPI
import Grants
import OAuth
import Principals

/// Callers' views of accounts.
@BrokerActor
final class AccountViews: Piece {
  let runtime: Runtime
  private let accounts: Accounts
  private let providers: ProviderDirectory
  private let authorizer: Authorizer
  /// A list is made for one client of a holder at a time.
  private var lists = Locks<Holder>()

  init(_ runtime: Runtime, accounts: Accounts, providers: ProviderDirectory, authorizer: Authorizer) {
    self.runtime = runtime
    self.accounts = accounts
    self.providers = providers
    self.authorizer = authorizer
  }

  /// `account.list`. One at a time for each holder: none of them keeps another waiting.
  func list(_ params: AccountList.Params, for session: any Session) async throws(RPCError) -> AccountList.Result {
    let holder = session.principal.holder
    guard lists.waiting(for: holder) < Limit.waitingLists else {
      throw RPCError(.overloaded, "too many lists are waited for", hint: "Ask again when one of them has come.")
    }
    if !lists.acquire(holder) { await withCheckedContinuation { lists.wait(for: holder, $0) } }
    defer { lists.release(holder) }
    return try await makeList(params, for: session)
  }

  private func makeList(
    _ params: AccountList.Params, for session: any Session
  ) async throws(RPCError) -> AccountList.Result {
    let caller = session.principal
    let wanted = params.limit ?? Limit.listedAccounts
    guard (1...Limit.wantedAccounts).contains(wanted) else {
      throw .invalidParams("params.limit: expected 1 to \(Limit.wantedAccounts)")
    }
    let most = min(wanted, Limit.listedAccounts)
    var last = try params.after.map { name throws(RPCError) in try accountName(name) }
    let names = try names(at: params.provider)
    var views: [AccountView] = []
    views.reserveCapacity(min(most, names.count))
    while session.isReading {
      let page = names.after(last, most: Batch.medium)
      let seen = page.filter { account in
        authorizer.policy.allows(.observe, method: AccountList.name, account: account.rawValue, caller: caller)
      }
      for grant in await accounts.facts(of: seen) {
        // One more than asked for shows that there are more.
        let view = accounts.view(grant)
        guard params.problems != true || view.state.isProblem else { continue }
        guard views.count < most else { return .init(accounts: views, next: views.last?.account) }
        views.append(view)
      }
      guard let end = page.last else { return .init(accounts: views) }
      last = end
    }
    throw RPCError(.overloaded, "the answers before are unread", hint: "Read them, then ask again.")
  }

  private func names(at provider: String?) throws(RPCError) -> SortedNames {
    guard let provider else { return accounts.names }
    guard let known = ProviderName(rawValue: provider), providers[known] != nil || accounts.count(at: known) > 0 else {
      throw providers.unknown(provider)
    }
    return accounts.names(at: known)
  }

  /// `account.get`.
  func account(_ name: AccountName) throws(RPCError) -> AccountView {
    guard let grant = accounts[name] else { throw unknownAccount(name.rawValue) }
    return accounts.view(grant)
  }
}

extension AccountState {
  /// A user or an administrator has something to do, or the provider does not answer.
  fileprivate var isProblem: Bool {
    switch self {
    case .ok, .refreshing: false
    case .degraded, .loginRequired, .actionRequired: true
    }
  }
}

extension AccountList: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.reports.accounts.list(call.params, for: call.session)
  }
}

extension AccountGet: RPCHandler {
  static var subject: Subject<Params, AccountName> { .account { $0.account } }
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try broker.reports.accounts.account(call.account)
  }
}
