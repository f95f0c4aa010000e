import BlockingClient
import BrokerAPI
import BrokerSocket

/// A call that failed. ``description`` is the message and the hint; it never contains a token.
///
///     do { … } catch GrantError.Reason.loginRequired { … } catch let error as GrantError { … }
public struct GrantError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The word of an error to branch on (docs/errors.md). It may be one that this version does not name.
  public struct Reason: RawRepresentable, Sendable, Hashable {
    public var rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// For `catch`.
    public static func ~= (reason: Reason, error: any Error) -> Bool { (error as? GrantError)?.reason == reason }
  }

  /// Empty for an error of JSON-RPC itself.
  public var reason: Reason
  /// For users. It may change.
  public var message: String
  /// The user's next step; empty if there is none.
  public var hint: String
  /// The number of JSON-RPC; 0 for an error that the library found.
  public var code = 0
  /// After which another attempt is useful; nil if unknown.
  public var retryAfter: Duration?
  /// The provider's `error`, `error_description` and `error_uri` (RFC 6749 §5.2).
  public var oauth: [String: String] = [:]

  public var description: String { hint.isEmpty ? message : "\(message): \(hint)" }
}

extension GrantError {
  init(_ reason: Reason, _ message: String, hint: String) {
    (self.reason, self.message, self.hint) = (reason, message, hint)
  }

  static func bad(_ what: String) -> GrantError {
    GrantError(.badAnswer, "the broker's answer \(what)", hint: "Run `grantctl doctor`.")
  }

  init(_ error: RPCError) {
    let name = error.reason?.rawValue ?? error.unknownReason ?? ""
    self.init(Reason(rawValue: name), error.message, hint: error.hint ?? "")
    code = error.code
    retryAfter = error.retry_after.map { .seconds($0) }
    guard let provider = error.oauth else { return }
    oauth["error"] = provider.error
    oauth["error_description"] = provider.error_description
    oauth["error_uri"] = provider.error_uri
  }

  /// The error of a call, or of connecting.
  init(_ error: SocketClientError, at place: SocketChoice, isConnecting: Bool = false) {
    switch error {
    case .rpc(let error):
      self.init(error)
    case .notRunning:
      let starts = place.starts.joined(separator: "` or `")
      self.init(.notRunning, "no broker listens at \(place.path)", hint: "Start it with `\(starts)`.")
    case .permissionDenied:
      self.init(
        .notPermitted, "this user has no access to \(place.path)",
        hint: "An administrator can allow it with `group` in [socket] of the configuration.")
    case .foreignServer(_, let uid):
      self.init(
        .foreignServer, "the server at \(place.path) belongs to another user (uid \(uid))",
        hint: "If that is intended, name the socket in GRANTD_SOCKET.")
    case .disconnected:
      self.init(.disconnected, "the broker closed the connection", hint: "Try again.")
    case .timedOut where isConnecting:
      self.init(.timedOut, "the broker at \(place.path) accepts no connection", hint: "Try again.")
    case .timedOut:
      self.init(.timedOut, "the broker did not answer in time", hint: "Try again.")
    case .malformed:
      // Its text may quote a token.
      self = .bad("is not valid")
    }
  }
}
