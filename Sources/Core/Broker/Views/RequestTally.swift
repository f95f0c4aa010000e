import BrokerAPI
import Synchronization

/// How often each method was called, and how it ended. Methods and results are closed sets, so that no caller can make
/// it grow; the cached tokens, which never come here, are counted by ``TokenCache``.
final class RequestTally: Sendable {
  struct Key: Hashable, Comparable {
    var method: String
    var result: String

    static func < (lhs: Key, rhs: Key) -> Bool { (lhs.method, lhs.result) < (rhs.method, rhs.result) }
  }

  /// Stands for every unknown name.
  static let unknownMethod = "unknown"
  static let ok = "ok"

  private let counts = Mutex<[Key: UInt64]>([:])

  /// - Parameter method: a method's name; nil: one that does not exist.
  func answered<Value>(_ method: String?, _ result: Result<Value, RPCError>) {
    let label =
      switch result {
      case .success: Self.ok
      case .failure(let error): Self.label(error)
      }
    counts.withLock { $0[Key(method: method ?? Self.unknownMethod, result: label), default: 0] += 1 }
  }

  var all: [Key: UInt64] { counts.withLock { $0 } }

  private static func label(_ error: RPCError) -> String {
    if let reason = error.reason { return reason.rawValue }
    switch error.code {
    case -32700: return "parse_error"
    case -32600: return "invalid_request"
    case -32601: return "method_not_found"
    case -32602: return "invalid_params"
    default: return "internal_error"
    }
  }
}
