import AsyncClient
import BrokerAPI

extension Shell {
  /// What a list has where the person does not say.
  private static let listedAccounts = 10_000

  /// The accounts of as many answers as it takes, as one answer: `next` says where to go on.
  ///
  /// - Parameter client: nil: each page is requested on a new connection, even across a restart of the broker.
  func accounts(
    _ params: AccountList.Params, on client: SocketClient? = nil
  ) async throws(Failure) -> MethodResult<AccountList> {
    var params = params
    var accounts: [JSON] = []
    let most = params.limit ?? Self.listedAccounts
    while true {
      let page: MethodResult<AccountList> =
        if let client { try await ask(AccountList.self, params, on: client) } else {
          try await ask(AccountList.self, params)
        }
      let listed = page.json["accounts"]?.array ?? []
      accounts += listed
      guard accounts.count < most, !listed.isEmpty, let next = page.json["next"]?.string, next != params.after else {
        guard case .object(var members) = page.json, let index = members.firstIndex(where: { $0.name == "accounts" })
        else { return page }
        members[index].value = .array(accounts)
        return MethodResult(json: .object(members))
      }
      params.after = next
      params.limit = params.limit.map { _ in most - accounts.count }
    }
  }
}

extension AccountView {
  /// The line that reports its import.
  var importedText: String {
    "Imported: \(account)\(identity.map { " (\($0.bestName))" } ?? "") at \(provider)"
  }
}
