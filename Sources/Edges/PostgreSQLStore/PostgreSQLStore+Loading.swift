public import Broker
import FoundationEssentials
public import Grants
import OAuth
import SQLite
import Sealing
import StoreRows
import Synchronization

// The reads of the store. Rows of the shared database are read as those of SQLite: their codes and seals are the same.
extension PostgreSQLStore {
  public func load() async throws(StoreError) -> StoredState {
    var state = try await loadRest()
    var page = try await accounts(after: nil, most: Self.pageSize)
    while let last = page.last {
      for packed in page { state.add(try packed.read(.whole)) }
      page = try await accounts(after: last.account, most: Self.pageSize)
    }
    return state
  }

  private static let pageSize = 1024

  /// Without logins and revocations that other machines have to end.
  public func loadRest() async throws(StoreError) -> StoredState {
    var state = try await own.loadRest()
    state.logins = []
    let node = ColumnValue.text(writer.node)
    let (logins, revocations) = try await (
      rows(of: SavedLogin.self, "node = $1::text", [node]), rows(of: PendingRevocation.self, "owner = $1::text", [node])
    )
    state.logins = logins
    queue.know(logins.map(\.id))
    state.revocations += revocations
    state.registrations = try await registrations()
    state.setAside += setAside
    return state
  }

  func registrations() async throws(StoreError) -> [SavedRegistration] {
    try await rows(of: SavedRegistration.self, "true", [])
  }

  /// The rows that can be read; the others are noted.
  private func rows<Row: StoredRow & Sendable>(
    of type: Row.Type, _ condition: String, _ values: [ColumnValue]
  ) async throws(StoreError) -> [Row] {
    let sealer = writer.sealer
    let (rows, damaged) = try await queue.use { session, deadline in
      var (rows, damaged) = ([Row](), [SetAsideRow]())
      for columns in try session.ask(Row.table.selectShared(condition), values, until: deadline).rows {
        do {
          rows.append(try PackedColumns(columns).value(sealer))
        } catch let error as DamagedRow {
          damaged.append(
            SetAsideRow(
              table: error.table, number: nil, key: columns.first?.text, account: nil, provider: nil,
              detail: error.detail))
        }
      }
      return (rows, damaged)
    }
    if !damaged.isEmpty { found.withLock { for row in damaged { $0[row.name] = row } } }
    return rows
  }

  public var setAside: [SetAsideRow] { own.setAside + found.withLock { Array($0.values) } }

  // MARK: Accounts

  public func accounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount] {
    let shared = try await page(after: account, most: most)
    let own = try await ownAccounts(after: account, most: most)
    guard !own.isEmpty else { return shared }
    let names = Set(own.map(\.account))
    let all = shared.filter { !names.contains($0.account) } as [any PackedAccount] + own
    return Array(all.sorted { $0.account < $1.account }.prefix(most))
  }

  private func ownAccounts(after account: AccountName?, most: Int) async throws(StoreError) -> [any PackedAccount] {
    guard local.withLock({ !$0.accounts.isEmpty }) else { return [] }
    return try await own.accounts(after: account, most: most).filter { isLocal($0.account) }
  }

  private func page(after account: AccountName?, most: Int) async throws(StoreError) -> [PackedRows] {
    let (memory, sealer) = (memory, writer.sealer)
    return try await queue.use { session, deadline in
      let first: [ColumnValue] = [.text(account?.rawValue ?? ""), .integer(Int64(most))]
      let upTo = """
        account > $1::text AND account <= (SELECT max(account) FROM
          (SELECT account FROM grantd.grants WHERE account > $1::text ORDER BY account LIMIT $2::int8) page)
        """
      let answers = try session.run(
        [
          Query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
          Query(SavedGrant.table.selectShared("account > $1::text ORDER BY account LIMIT $2::int8"), first),
          Query(SavedToken.table.selectShared("\(upTo) ORDER BY account"), first),
          Query(Self.intents("\(upTo)"), first),
          Query("COMMIT"),
        ], until: deadline)
      let tokens = Dictionary(grouping: answers[2].rows) { $0[0].text ?? "" }
      let intents = Dictionary(answers[3].rows.map { ($0[0].text ?? "", $0) }) { $1 }
      return try answers[1].rows.compactMap { row in
        guard let name = row[0].text.flatMap(AccountName.init) else { return nil }
        let packed = PackedColumns(row, tokens[name.rawValue] ?? [], intents[name.rawValue])
        return try PackedRows(name, packed.bytes, sealer, in: memory)
      }
    }
  }

  /// As rows of the table `refresh_intents`.
  private static func intents(_ condition: String) -> String {
    let columns = RefreshIntent.table.columns.joined(separator: ", ")
    return "SELECT \(columns) FROM grantd.refresh WHERE refresh_token_hash IS NOT NULL AND \(condition)"
  }

  public func read(_ account: AccountName) async throws(StoreError) -> StoredAccount? {
    if isLocal(account) { return try await own.read(account) }
    return try await readShared(account)
  }

  func readShared(_ account: AccountName) async throws(StoreError) -> StoredAccount? {
    let (memory, sealer) = (memory, writer.sealer)
    let packed = try await queue.use { session, deadline -> PackedRows? in
      let name = [ColumnValue.text(account.rawValue)]
      let answers = try session.run(
        [
          Query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
          Query(SavedGrant.table.selectShared("account = $1::text"), name),
          Query(SavedToken.table.selectShared("account = $1::text"), name),
          Query(Self.intents("account = $1::text"), name),
          Query("COMMIT"),
        ], until: deadline)
      guard let grant = answers[1].rows.first else { return nil }
      let columns = PackedColumns(grant, answers[2].rows, answers[3].rows.first)
      return try PackedRows(account, columns.bytes, sealer, in: memory)
    }
    return try packed?.read(.whole)
  }

  public func countAccounts() async throws(StoreError) -> Int {
    let shared = try await queue.use { session, deadline in
      try session.ask("SELECT count(*) FROM grantd.grants", until: deadline).value?.integer ?? 0
    }
    return Int(shared) + local.withLock { $0.accounts.count }
  }

  public func pack(_ account: StoredAccount) -> any PackedAccount {
    guard let packed = try? PackedRows(account, sealer: writer.sealer, in: memory) else {
      return UnpackedAccount(account)
    }
    return packed
  }

  public func salvage(_ account: AccountName) async throws(StoreError) -> SavedGrant? {
    if isLocal(account) { return try await own.salvage(account) }
    let sealer = writer.sealer
    return try await queue.use { session, deadline in
      let sql = SavedGrant.table.selectShared("account = $1::text")
      let row = try session.ask(sql, [.text(account.rawValue)], until: deadline).rows.first
      guard let row else { return nil }
      let values = Dictionary(zip(SavedGrant.table.columns, row)) { $1 }
      let remains = SavedGrant.remains(of: account, values, sealer)
      return remains.isRenewable && remains.provider != SavedGrant.unreadableProvider ? remains : nil
    }
  }

  public func discard(_ row: RowName) async throws(StoreError) -> Bool { try await own.discard(row) }

  // MARK: Logins

  public func logins(_ wanted: LoginSearch) async throws(StoreError) -> [SavedLogin] {
    switch wanted {
    case .id(let id): try await rows(of: SavedLogin.self, "id = $1::text", [.text(id.rawValue)])
    case .state(let state):
      try await rows(of: SavedLogin.self, "state_hash = $1::text", [.text(writer.hash(ofState: state))])
    case .provider(let name): try await rows(of: SavedLogin.self, "provider = $1::text", [.text(name.rawValue)])
    }
  }
}

extension PackedColumns {
  /// One row.
  init(_ row: [ColumnValue]) {
    self.init()
    for value in row { append(value) }
  }

  /// The rows of an account.
  init(_ grant: [ColumnValue], _ tokens: [[ColumnValue]], _ intent: [ColumnValue]?) {
    self.init(grant)
    append(count: tokens.count)
    for token in tokens { for value in token { append(value) } }
    for value in intent ?? [] { append(value) }
  }

  func value<Row: StoredRow>(_ sealer: Sealer) throws -> Row {
    var columns = self
    return try columns.next(.whole, sealer)
  }
}
