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
    case .removeGrant(let account), .removeTokens(let account), .removeToken(let account, _),
      .removeIntent(let account):
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
        return [Query(SavedLogin.table.updateShared(), values)] + told("login", login.account, revision)
      }
      let more = [("state_hash", "text"), ("node", "text"), ("run", "text")]
      return [
        Query(
          SavedLogin.table.putShared(more), values + [.text(hash(ofState: login.state)), .text(node), .text(run)])
      ]
    case .removeLogin(let id):
      return [
        Query(
          """
          WITH gone AS (DELETE FROM grantd.logins WHERE id = $1::text AND \(Table.isAllowed) RETURNING account)
          INSERT INTO grantd.change (xact, kind, name, commit, node)
            SELECT pg_current_xact_id(), 'login', account, $2::bytea, $3::text FROM gone RETURNING name
          """, [.text(id.rawValue), .blob(revision), .text(node)])
      ]
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

  func told(_ kind: String, _ account: AccountName, _ revision: Data) -> [Query] {
    [
      Query(
        """
        INSERT INTO grantd.change (xact, kind, name, commit, node)
          SELECT pg_current_xact_id(), $1::text, $2::text, $3::bytea, $4::text WHERE \(Table.isAllowed)
        """, [.text(kind), .text(account.rawValue), .blob(revision), .text(node)])
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
      case .generation(let account, let generation?):
        let name = parameter(.text(account.rawValue), "text")
        conditions.append(
          "EXISTS (SELECT 1 FROM grantd.grants WHERE account = \(name)"
            + " AND generation = \(parameter(.integer(generation), "int8")))")
      case .generation(let account, nil):
        let name = parameter(.text(account.rawValue), "text")
        conditions.append("NOT EXISTS (SELECT 1 FROM grantd.grants WHERE account = \(name))")
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
}
