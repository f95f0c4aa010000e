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

  /// Without logins that other machines have to end.
  public func loadRest() async throws(StoreError) -> StoredState {
    var state = try await own.loadRest()
    state.logins = try await logins("node = $1::text", [.text(writer.node)])
    state.revocations += try await rows(of: PendingRevocation.self, "true", [])
    state.registrations = try await registrations()
    state.setAside += setAside
    return state
  }

  public func revocations() async throws(StoreError) -> [PendingRevocation] {
    let shared = try await rows(of: PendingRevocation.self, "true", [])
    guard local.withLock({ !$0.revocations.isEmpty }) else { return shared }
    return try await own.revocations() + shared
  }

  public func registrations() async throws(StoreError) -> [SavedRegistration] {
    try await rows(of: SavedRegistration.self, "true", [])
  }

  /// The rows that can be read; the others are noted.
  private func rows<Row: StoredRow & Sendable>(
    of type: Row.Type, _ condition: String, _ values: [ColumnValue]
  ) async throws(StoreError) -> [Row] {
    try await rows(of: type, Row.table.selectShared(condition), values) { row, _ in row }
  }

  /// - Parameter complete: adds the columns that the statement returns behind the row's own.
  private func rows<Row: StoredRow & Sendable>(
    of type: Row.Type, _ sql: String, _ values: [ColumnValue],
    _ complete: @escaping @Sendable (Row, ArraySlice<ColumnValue>) -> Row
  ) async throws(StoreError) -> [Row] {
    let sealer = writer.sealer
    var (rows, damaged) = ([Row](), [SetAsideRow]())
    let count = Row.table.columns.count
    for columns in try await queue.read([Query(sql, values)])[0].rows {
      do {
        rows.append(complete(try PackedColumns(Array(columns.prefix(count))).value(sealer), columns.dropFirst(count)))
      } catch let error as DamagedRow {
        damaged.append(
          SetAsideRow(
            table: error.table, number: nil, key: columns.first?.text, account: nil, provider: nil,
            detail: error.detail))
      } catch {
        throw StoreError(error, at: location)
      }
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

  private func page(after account: AccountName?, most: Int) async throws(StoreError) -> [SharedRows] {
    let first: [ColumnValue] = [.text(account?.rawValue ?? ""), .integer(Int64(most))]
    let upTo = """
      account > $1::text AND account <= (SELECT max(account) FROM
        (SELECT account FROM grantd.grants WHERE account > $1::text ORDER BY account LIMIT $2::int8) page)
      """
    return try await packed([
      Query(Self.grants("account > $1::text ORDER BY account LIMIT $2::int8"), first),
      Query(SavedToken.table.selectShared("\(upTo) ORDER BY account"), first),
      Query(Self.intents("\(upTo)"), first),
    ])
  }

  /// - Parameter queries: for grants, their tokens and their intents.
  private func packed(_ queries: [Query]) async throws(StoreError) -> [SharedRows] {
    let answers = try await queue.read(queries)
    do {
      return try SharedRows.all(answers, writer.sealer, in: memory)
    } catch {
      throw StoreError(error, at: location)
    }
  }

  /// With the columns of ``SharedRows``.
  private static func grants(_ condition: String) -> String {
    "SELECT \(SavedGrant.table.columns.joined(separator: ", ")), revision, issuer FROM grantd.grants WHERE \(condition)"
  }

  /// As rows of the table `refresh_intents`.
  private static func intents(_ condition: String) -> String {
    let columns = RefreshIntent.table.columns.joined(separator: ", ")
    return "SELECT \(columns) FROM grantd.refresh WHERE refresh_token_hash IS NOT NULL AND \(condition)"
  }

  public func read(_ accounts: [AccountName]) async throws(StoreError) -> [StoredAccount] {
    let local = accounts.filter(isLocal)
    let shared = accounts.filter { !isLocal($0) }
    var found: [StoredAccount] = []
    if !local.isEmpty { found += try await own.read(local) }
    if !shared.isEmpty { found += try await readShared(shared) }
    return found
  }

  func readShared(_ accounts: [AccountName]) async throws(StoreError) -> [StoredAccount] {
    let (names, condition) = (
      [ColumnValue.text(Writer.list(accounts))], "account = ANY (string_to_array($1::text, ' '))"
    )
    let rows = try await packed([
      Query(Self.grants(condition), names), Query(SavedToken.table.selectShared(condition), names),
      Query(Self.intents(condition), names),
    ])
    var found: [StoredAccount] = []
    for rows in rows { found.append(try rows.read(.whole)) }
    return found
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
    guard let remains = try await remains(of: account)?.grant else { return nil }
    return remains.isRenewable && remains.provider != SavedGrant.unreadableProvider ? remains : nil
  }

  public func remains(of account: AccountName) async throws(StoreError) -> StoredAccount? {
    guard !isLocal(account) else { return nil }
    let query = Query(Self.grants("account = $1::text"), [.text(account.rawValue)])
    guard let row = try await queue.read([query])[0].rows.first else { return nil }
    let values = Dictionary(zip(SavedGrant.table.columns, row)) { $1 }
    var stored = StoredAccount(
      grant: SavedGrant.remains(of: account, values, writer.sealer), tokens: [], intent: nil)
    (stored.revision, stored.issuer) = SharedRows.marks(row)
    if stored.revision == nil { stored.revision = try await revise(account) }
    return stored
  }

  /// A row whose revision is not one gets another: no commit could expect it.
  private func revise(_ account: AccountName) async throws(StoreError) -> Revision {
    let new = Revision.random()
    try await queue.use { session, deadline in
      _ = try session.ask(
        "UPDATE grantd.grants SET revision = $2::bytea WHERE account = $1::text AND octet_length(revision) <> 8",
        [.text(account.rawValue), .blob(new.data)], until: deadline)
    }
    return new
  }

  public func discard(_ row: RowName) async throws(StoreError) -> Bool { try await own.discard(row) }

  // MARK: Logins

  public func logins(_ wanted: LoginSearch) async throws(StoreError) -> [SavedLogin] {
    switch wanted {
    case .id(let id): try await logins("id = $1::text", [.text(id.rawValue)])
    case .state(let state): try await logins("state_hash = $1::text", [.text(writer.hash(ofState: state))])
    case .provider(let name): try await logins("provider = $1::text", [.text(name.rawValue)])
    }
  }

  private func logins(_ condition: String, _ values: [ColumnValue]) async throws(StoreError) -> [SavedLogin] {
    let columns = SavedLogin.table.columns.joined(separator: ", ")
    let found = try await rows(
      of: SavedLogin.self, "SELECT \(columns), node, run FROM grantd.logins WHERE \(condition)", values
    ) { login, more in
      var login = login
      let more = more.map { $0.text ?? "" }
      login.origin = LoginOrigin(node: more[0], run: more[1])
      return login
    }
    queue.know(found.map(\.id))
    return found
  }
}

/// An account's rows, and the columns that the shared database has of it besides.
private struct SharedRows: PackedAccount {
  private let rows: PackedRows
  private let revision: Revision?
  private let issuer: String?

  var account: AccountName { rows.account }

  func read(_ depth: AccountDepth) throws(StoreError) -> StoredAccount {
    if depth != .remains, revision == nil { throw .unreadableAccount(account, detail: "its revision is not one") }
    var stored = try rows.read(depth)
    (stored.revision, stored.issuer) = (revision, issuer)
    return stored
  }

  /// The revision and the issuer in a row of a grant.
  static func marks(_ row: [ColumnValue]) -> (Revision?, issuer: String?) {
    let count = SavedGrant.table.columns.count
    return (row[count].blob.flatMap(Revision.init), row[count + 1].text)
  }

  /// - Parameter answers: grants, tokens and intents.
  static func all(_ answers: [Answer], _ sealer: Sealer, in memory: PackedMemory) throws -> [SharedRows] {
    let tokens = Dictionary(grouping: answers[1].rows) { $0[0].text ?? "" }
    let intents = Dictionary(answers[2].rows.map { ($0[0].text ?? "", $0) }) { $1 }
    let count = SavedGrant.table.columns.count
    return try answers[0].rows.compactMap { row in
      guard let name = row[0].text.flatMap(AccountName.init) else { return nil }
      let packed = PackedColumns(Array(row.prefix(count)), tokens[name.rawValue] ?? [], intents[name.rawValue])
      let (revision, issuer) = marks(row)
      return SharedRows(
        rows: try PackedRows(name, packed.bytes, sealer, in: memory), revision: revision, issuer: issuer)
    }
  }
}

extension PackedColumns {
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
