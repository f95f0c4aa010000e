import BrokerAPI
import Grants
import Logging
import OAuth

/// Repairs and removes rows on disk that cannot be read (`store.repair`).
@BrokerActor
final class Repairs: Piece {
  let runtime: Runtime
  let accounts: Accounts
  let journal: Journal

  init(_ runtime: Runtime, accounts: Accounts, journal: Journal) {
    self.runtime = runtime
    self.accounts = accounts
    self.journal = journal
  }

  func repair(_ params: StoreRepair.Params) async throws(RPCError) -> StoreRepair.Result {
    guard let row = RowName(params.row) else {
      throw .invalidParams(
        "\(params.row.prefix(128).debugDescription) names neither an account nor a row", hint: Self.listing)
    }
    switch row {
    case .account(let account):
      guard params.remove != true else {
        throw .invalidParams(
          "\(account) is an account", hint: "Remove it with `grantctl logout \(account)`.")
      }
      try await repair(account)
      return .init(row: params.row, outcome: "repaired")
    case .row:
      guard params.remove == true else {
        throw .invalidParams(
          "row \(row) is not an account's: it cannot be repaired",
          hint: "Remove it with `grantctl repair \(row) --remove`.")
      }
      try await remove(row)
      return .init(row: params.row, outcome: "removed")
    }
  }

  private static let listing = "List the rows that cannot be read with `grantctl repair`."

  private func remove(_ row: RowName) async throws(RPCError) {
    let isRemoved = try await stored { () async throws(StoreError) in try await journal.store.discard(row) }
    guard isRemoved else { throw .invalidParams("row \(row) is not one that cannot be read", hint: Self.listing) }
    journal.removeSetAside(row)
    logger.notice("removed row \(row), which could not be read")
  }

  /// The refresh token is kept; values that could end or reveal it are dropped.
  private func repair(_ account: AccountName) async throws(RPCError) {
    await journal.lock(account)
    defer { journal.unlock(account) }
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    guard grant.isUnreadable else {
      throw .invalidParams("account \(account) can be read", hint: Self.listing)
    }
    let saved = try await stored { () async throws(StoreError) in try await journal.store.salvage(account) }
    guard let saved, accounts.providers[saved.provider] != nil else {
      throw RPCError(
        .loginRequired, "account \(account) cannot be repaired: its refresh token or its provider cannot be read",
        hint: accounts.loginHint(grant.saved))
    }
    try await stored { () async throws(StoreError) in
      try await journal.commit([.putGrant(saved), .removeTokens(account), .removeIntent(account)])
    }
    accounts[account] = Grant(saved: saved, token: nil, jitter: system.jitter())
    accounts.changed(account)
    logger.notice("repaired account \(account)", metadata: ["account": "\(account)", "provider": "\(saved.provider)"])
  }
}

extension StoreRepair: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.upkeep.repairs.repair(call.params)
  }
}
