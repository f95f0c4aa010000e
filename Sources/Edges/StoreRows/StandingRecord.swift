import Grants
import OAuth

/// A standing as it is on disk: a name for queries, and JSON with the rest. Apart from the type in memory, whose cases
/// may be renamed while stores stay as they are.
struct StandingRecord {
  enum Kind: String {
    case good
    case failing
    case loginRequired = "login_required"
    case misconfigured
  }

  struct Detail: Codable {
    var failure: FailureRecord
    var count: Int?
    var retryAt: Timestamp?
    var reason: LoginReason?
    /// The grant's refresh token was refused once. Nil: it was not, or an older version wrote the row.
    var refusedOnce: Bool?

    enum CodingKeys: String, CodingKey {
      case failure, count, reason
      case retryAt = "retry_at"
      case refusedOnce = "refused_once"
    }
  }

  let kind: Kind
  private(set) var detail: Detail?

  init(kind: Kind, detail: Detail?) {
    self.kind = kind
    self.detail = detail
  }

  init(_ standing: Standing, isRefusedOnce: Bool) {
    switch standing {
    case .good:
      self.init(kind: .good, detail: nil)
    case .failing(let failure, let count, let retryAt):
      self.init(kind: .failing, detail: Detail(failure: failure, count: count, retryAt: retryAt))
    case .loginRequired(let reason, let failure):
      self.init(kind: .loginRequired, detail: Detail(failure: failure, reason: reason))
    case .misconfigured(let failure):
      self.init(kind: .misconfigured, detail: Detail(failure: failure))
    }
    if isRefusedOnce { detail?.refusedOnce = true }
  }

  /// Nil where the detail lacks what the kind needs.
  var standing: Standing? {
    switch kind {
    case .good:
      return .good
    case .failing:
      guard let detail, let count = detail.count, let retryAt = detail.retryAt else { return nil }
      return .failing(detail.failure, count: count, retryAt: retryAt)
    case .loginRequired:
      guard let detail, let reason = detail.reason else { return nil }
      return .loginRequired(reason, detail.failure)
    case .misconfigured:
      return detail.map { .misconfigured($0.failure) }
    }
  }
}
