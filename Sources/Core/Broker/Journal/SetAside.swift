import FoundationEssentials
public import Grants
public import OAuth

/// A row on disk that cannot be read. It stays unchanged; its purpose is unavailable until it is repaired, replaced or
/// removed.
public struct SetAsideRow: Sendable, Equatable {
  /// The table of the database.
  public let table: String
  /// The row's number in its table (SQLite, "ROWIDs"); nil: the account names it.
  public let number: Int64?
  /// Its first column, as far as that can be read.
  public let key: String?
  public let account: AccountName?
  public let provider: ProviderName?
  /// What is wrong with it, in a sentence without a full stop.
  public let detail: String

  public init(
    table: String, number: Int64?, key: String?, account: AccountName?, provider: ProviderName?, detail: String
  ) {
    self.table = table
    self.number = number
    self.key = key
    self.account = account
    self.provider = provider
    self.detail = detail
  }

  /// As ``RowName`` reads it.
  public var name: RowName {
    if table == "grants", let account { return .account(account) }
    return .row(table: table, number: number ?? 0)
  }
}

/// Which row is meant: an account's, by its name, or another one as `logins#3`.
public enum RowName: Sendable, Hashable, CustomStringConvertible {
  case account(AccountName)
  case row(table: String, number: Int64)

  /// No name of an account has a `#`.
  public init?(_ text: String) {
    let parts = text.split(separator: "#", omittingEmptySubsequences: false)
    switch parts.count {
    case 1:
      guard let account = AccountName(rawValue: text) else { return nil }
      self = .account(account)
    case 2:
      guard let number = Int64(parts[1]) else { return nil }
      self = .row(table: String(parts[0]), number: number)
    default: return nil
    }
  }

  public var description: String {
    switch self {
    case .account(let account): account.rawValue
    case .row(let table, let number): "\(table)#\(number)"
    }
  }
}

/// Transactions that an earlier run committed, and that are not in the database: its log was damaged, or an older copy was
/// put back.
public struct LostCommits: Sendable, Equatable {
  public var count: Int64
  /// The time of the last one.
  public var last: Timestamp

  public init(count: Int64, last: Timestamp) {
    self.count = count
    self.last = last
  }
}

extension Timestamp {
  /// For people: `2026-11-27 01:55:00Z`.
  var text: String {
    Date(timeIntervalSince1970: Double(seconds)).formatted(.iso8601.dateTimeSeparator(.space))
  }
}
