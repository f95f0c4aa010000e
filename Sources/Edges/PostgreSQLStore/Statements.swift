import Broker
import FoundationEssentials
import Grants
import OAuth
import SQLite
import Sealing
import StoreRows

// The statements that change rows. Each writes only if the expectations of its commit held: the setting `grantd.ok`.
extension Table {
  /// As ``isAllowed`` is false, nothing is written.
  static let isAllowed = "current_setting('grantd.ok') = 't'"

  private func cast(_ type: ColumnType) -> String {
    switch type {
    case .text: "text"
    case .integer: "int8"
    case .blob: "bytea"
    }
  }

  private var placeholders: String {
    zip(1..., types).map { "$\($0)::\(cast($1))" }.joined(separator: ", ")
  }

  /// `more`: further columns, each with its type.
  func putShared(_ more: [(name: String, type: String)] = []) -> String {
    let names = columns + more.map(\.name)
    let values = ([placeholders] + zip((columns.count + 1)..., more).map { "$\($0)::\($1.type)" }).joined(
      separator: ", ")
    let updates = names.filter { !key.contains($0) }.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
    return """
      INSERT INTO grantd.\(name) (\(names.joined(separator: ", "))) SELECT \(values) WHERE \(Self.isAllowed)
        ON CONFLICT (\(key.joined(separator: ", "))) DO UPDATE SET \(updates)
      """
  }

  /// Changes a row only if it exists.
  func updateShared() -> String {
    let updates = zip(1..., zip(columns, types)).filter { !key.contains($1.0) }
      .map { "\($1.0) = $\($0)::\(cast($1.1))" }.joined(separator: ", ")
    // The key is the first column.
    return "UPDATE grantd.\(name) SET \(updates) WHERE \(key[0]) = $1::text AND \(Self.isAllowed)"
  }

  func selectShared(_ condition: String) -> String {
    "SELECT \(columns.joined(separator: ", ")) FROM grantd.\(name) WHERE \(condition)"
  }
}

/// What the statements of one store have in common.
struct Writer: Sendable {
  let node: String
  let run: String
  let sealer: Sealer
  /// Hashes states of logins: the same at every machine, as it comes from the sealing key.
  private let stateKey: Secret

  init(node: String, run: String, sealer: Sealer) {
    (self.node, self.run, self.sealer) = (node, run, sealer)
    stateKey = Secret(sealer.code(of: Data("state".utf8), in: "logins").base64EncodedString())
  }

  func hash(ofState state: Secret) -> String { state.keyedHash(under: stateKey) }

  /// The accounts whose rows of `refresh` a change needs locked.
  static func account(of change: Change) -> AccountName? {
    switch change {
    case .putGrant(let grant): grant.account
    case .putToken(let token): token.account
    case .putIntent(let intent): intent.account
    case .removeGrant(let account), .putIssuer(let account, _), .removeTokens(let account),
      .removeToken(let account, _), .removeIntent(let account):
      account
    case .putLogin, .removeLogin, .putRevocation, .removeRevocation, .putRegistration, .removeRegistration, .putValue:
      nil
    }
  }

  // MARK: Changes

  /// - Parameters:
  ///   - revision: the commit's id.
  ///   - isKnown: whether this store has written the login before: one that another broker took never comes back.
  func queries(
    _ change: Change, revision: Data, isKnown: (LoginID) -> Bool
  ) throws -> [Query] {
    switch change {
    case .putGrant(let grant):
      return [
        Query(SavedGrant.table.putShared([("revision", "bytea")]), try grant.values(sealer) + [.blob(revision)])
      ]
    case .removeGrant(let account):
      return [
        Query(guarded("DELETE FROM grantd.grants WHERE account = $1::text"), [.text(account.rawValue)]),
        Query(guarded(Self.clearIntent), [.text(account.rawValue)]),
      ]
    case .putIssuer(let account, let issuer):
      return [
        Query(
          guarded("UPDATE grantd.grants SET issuer = $2::text WHERE account = $1::text"),
          [.text(account.rawValue), .text(issuer)])
      ]
    case .putToken(let token): return [Query(SavedToken.table.putShared(), try token.values(sealer))]
    case .removeTokens(let account):
      return [Query(guarded("DELETE FROM grantd.tokens WHERE account = $1::text"), [.text(account.rawValue)])]
    case .removeToken(let account, let key):
      let sql = "DELETE FROM grantd.tokens WHERE account = $1::text AND scope = $2::text AND resource = $3::text"
      return [Query(guarded(sql), [.text(account.rawValue), .text(plain(key.scope)), .text(plain(key.target))])]
    case .putIntent(let intent): return [Query(guarded(Self.putIntent), try intent.values(sealer))]
    case .removeIntent(let account): return [Query(guarded(Self.clearIntent), [.text(account.rawValue)])]
    case .putLogin(let login):
      let values = try login.values(sealer)
      if isKnown(login.id) {
        return [Query(SavedLogin.table.updateShared(), values)]
      }
      let more = [("state_hash", "text"), ("node", "text"), ("run", "text")]
      return [
        Query(
          SavedLogin.table.putShared(more),
          values + [
            .text(hash(ofState: login.state)), .text(login.origin?.node ?? node), .text(login.origin?.run ?? run),
          ])
      ]
    case .removeLogin(let id):
      return [Query(guarded("DELETE FROM grantd.logins WHERE id = $1::text"), [.text(id.rawValue)])]
    case .putRevocation(let revocation):
      return [
        Query(PendingRevocation.table.putShared([("owner", "text")]), try revocation.values(sealer) + [.text(node)])
      ]
    case .removeRevocation(let id):
      return [Query(guarded("DELETE FROM grantd.revocations WHERE id = $1::text"), [.text(plain(id))])]
    case .putRegistration(let registration):
      return [
        Query(
          SavedRegistration.table.putShared([("revision", "bytea")]),
          try registration.values(sealer) + [.blob(revision)])
      ]
    case .removeRegistration(let provider):
      return [
        Query(guarded("DELETE FROM grantd.registrations WHERE provider = $1::text"), [.text(provider.rawValue)])
      ]
    case .putValue: return []
    }
  }

  /// The accounts whose grants or tokens changed have the commit's id from now on.
  func revise(_ changes: [Change], _ revision: Data) -> [Query] {
    var accounts = Set(changes.compactMap(\.owner))
    for case .putGrant(let grant) in changes { accounts.remove(grant.account) }
    guard !accounts.isEmpty else { return [] }
    let sql = "UPDATE grantd.grants SET revision = $2::bytea WHERE account = ANY (string_to_array($1::text, ' '))"
    return [Query(guarded(sql), [.text(Self.list(accounts)), .blob(revision)])]
  }

  /// As one text: no account's name has a space.
  static func list(_ accounts: some Sequence<AccountName>) -> String {
    accounts.map(\.rawValue).sorted().joined(separator: " ")
  }

  /// Records the changes for other brokers, with the commit's id.
  func record(_ reports: Set<Report>, _ revision: Data) -> [Query] {
    guard !reports.isEmpty else { return [] }
    return [
      Query(
        """
        INSERT INTO grantd.change (xact, kind, name, commit, node)
          SELECT pg_current_xact_id(), split_part(line, ' ', 1), split_part(line, ' ', 2), $2::bytea, $3::text
            FROM unnest(string_to_array($1::text, E'\\n')) line WHERE \(Table.isAllowed)
        """,
        [.text(reports.map(\.line).sorted().joined(separator: "\n")), .blob(revision), .text(node)])
    ]
  }

  private func guarded(_ sql: String) -> String { "\(sql) AND \(Table.isAllowed)" }

  private static let putIntent = """
    UPDATE grantd.refresh SET refresh_token_hash = $2::text, sent_at = $3::int8, attempts = $4::int8, code = $5::bytea
      WHERE account = $1::text
    """
  private static let clearIntent = """
    UPDATE grantd.refresh SET refresh_token_hash = NULL, sent_at = NULL, attempts = NULL, code = NULL
      WHERE account = $1::text
    """

  // MARK: Expectations

  /// Evaluates the expectations into the setting, and returns it as `t` or `f`.
  func check(_ expectations: [Expectation]) -> Query {
    var (conditions, values) = ([String](), [ColumnValue]())
    func parameter(_ value: ColumnValue, _ type: String) -> String {
      values.append(value)
      return "$\(values.count)::\(type)"
    }
    for expectation in expectations {
      switch expectation {
      case .lease(let lease):
        let account = parameter(.text(lease.account.rawValue), "text")
        let fence = parameter(.integer(Int64(bitPattern: lease.fence)), "int8")
        conditions.append(
          "EXISTS (SELECT 1 FROM grantd.refresh WHERE account = \(account) AND fence = \(fence)"
            + " AND node = \(parameter(.text(node), "text")) AND run = \(parameter(.text(run), "text")))")
      case .revision(let account, let revision?):
        let name = parameter(.text(account.rawValue), "text")
        conditions.append(
          "EXISTS (SELECT 1 FROM grantd.grants WHERE account = \(name)"
            + " AND revision = \(parameter(.blob(revision.data), "bytea")))")
      case .revision(let account, nil):
        let name = parameter(.text(account.rawValue), "text")
        conditions.append("NOT EXISTS (SELECT 1 FROM grantd.grants WHERE account = \(name))")
      case .revocation(let id):
        let name = parameter(.text(plain(id)), "text")
        conditions.append(
          "EXISTS (SELECT 1 FROM grantd.revocations WHERE id = \(name)"
            + " AND \(Self.isClaimable(by: parameter(.text(node), "text"))) FOR UPDATE)")
      case .noRegistration(let name):
        let name = parameter(.text(name.rawValue), "text")
        conditions.append("NOT EXISTS (SELECT 1 FROM grantd.registrations WHERE provider = \(name))")
      case .login(let id):
        // The row's lock: a second broker waits, and then finds no row.
        let name = parameter(.text(id.rawValue), "text")
        conditions.append("EXISTS (SELECT 1 FROM grantd.logins WHERE id = \(name) FOR UPDATE)")
      }
    }
    let condition = (["true"] + conditions).joined(separator: " AND ")
    return Query(
      """
      SELECT set_config('grantd.ok', CASE WHEN current_setting('grantd.next') = 't' AND \(condition) THEN 't' ELSE 'f' END, true),
        set_config('grantd.applied', current_setting('grantd.applied') || current_setting('grantd.ok'), true)
      """, values)
  }

  private static func isClaimable(by node: String) -> String {
    "(holder IS NULL OR holder = \(node) OR until IS NULL OR until <= clock_timestamp())"
  }

  /// Returns a row if the revocation is this machine's to send.
  func claim(_ revocation: String, for duration: Duration) -> Query {
    Query(
      """
      UPDATE grantd.revocations SET holder = $2::text, until = clock_timestamp() + ($3::int8 * interval '1 ms')
        WHERE id = $1::text AND \(Self.isClaimable(by: "$2::text")) RETURNING 1::int8
      """, [.text(plain(revocation)), .text(node), .integer(duration.milliseconds)])
  }
}

extension Revision {
  var data: Data { withUnsafeBytes(of: rawValue.bigEndian) { Data($0) } }

  /// Nil: it is not 8 bytes long.
  init?(_ data: Data) {
    guard data.count == 8 else { return nil }
    self.init(rawValue: data.reduce(0) { $0 << 8 | UInt64($1) })
  }
}

/// One changed row, as other brokers are notified of it.
struct Report: Hashable, Sendable {
  enum Kind: String { case account, login, revocation, registration }

  let kind: Kind
  let name: String

  init(_ kind: Kind, _ name: String) { (self.kind, self.name) = (kind, name) }

  /// Nil: the change is only for this machine.
  init?(_ change: Change) {
    if let account = Writer.account(of: change) {
      self.init(.account, account.rawValue)
      return
    }
    switch change {
    case .putLogin(let login): self.init(.login, login.id.rawValue)
    case .removeLogin(let id): self.init(.login, id.rawValue)
    case .putRevocation(let revocation): self.init(.revocation, plain(revocation.id))
    case .removeRevocation(let id): self.init(.revocation, plain(id))
    case .putRegistration(let registration): self.init(.registration, registration.provider.rawValue)
    case .removeRegistration(let provider): self.init(.registration, provider.rawValue)
    default: return nil
    }
  }

  init?(line: some StringProtocol) {
    let words = line.split(separator: " ", maxSplits: 1)
    guard words.count == 2, let kind = Kind(rawValue: String(words[0])) else { return nil }
    self.init(kind, String(words[1]))
  }

  var line: String { "\(kind.rawValue) \(name)" }
}

extension ChangesElsewhere {
  /// One for each kind.
  static func all(_ reports: some Sequence<Report>) -> [ChangesElsewhere] {
    let names = Dictionary(grouping: reports, by: \.kind).mapValues { $0.map(\.name) }
    var all: [ChangesElsewhere] = []
    if let names = names[.account] { all.append(.accounts(Set(names.compactMap(AccountName.init)))) }
    if let names = names[.login] { all.append(.logins(Set(names.compactMap(LoginID.init)))) }
    if let names = names[.revocation] { all.append(.revocations(Set(names))) }
    if let names = names[.registration] { all.append(.registrations(Set(names.compactMap(ProviderName.init)))) }
    return all
  }
}
