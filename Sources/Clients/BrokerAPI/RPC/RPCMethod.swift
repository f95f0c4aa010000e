/// A method of the socket: its parameters, its result, who may call it, and the words of the reference, in one type.
/// The registry (``Methods/all``), the OpenRPC document and `docs/rpc.md` are made from these.
/// Members are named as on the wire.
public protocol RPCMethod: Sendable {
  associatedtype Params: Codable & Sendable
  associatedtype Result: Codable & Sendable

  static var name: String { get }
  static var access: Access { get }
  /// One sentence, in the imperative or the third person, ending with a full stop.
  static var summary: String { get }
  /// The meaning of each member of ``Params``, its unit and default. Every member must be listed; a test compares.
  static var paramDocs: [String: String] { get }
  /// The meaning of each member of ``Result``. Every member must be listed; a test compares.
  static var resultDocs: [String: String] { get }
  /// The reasons of this method's own errors, in addition to those of every method.
  static var errors: [ErrorReason] { get }
  /// One call, as the reference shows it.
  static var example: MethodExample { get }
}

/// The right that a caller needs before a method runs. Declared on the method, enforced in one place.
public enum Access: String, Sendable, CaseIterable, Codable {
  /// Any client that can connect.
  case open
  /// Use an account's tokens.
  case use
  /// Get an account's ID tokens, which prove its user to their audience. `use` does not include it.
  case idToken = "id_token"
  /// Start and finish logins.
  case login
  /// Change the broker: forget accounts, reload the configuration.
  case manage
  /// See accounts, providers, state and events; never a token.
  case observe
}

/// A method without parameters.
public struct NoParams: Codable, Sendable, Equatable {
  public init() {}
}
