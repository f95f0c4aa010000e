public import BrokerAPI

/// The lock of a user's broker, outside of it: the key goes under a passphrase, and a process without secrets follows.
public protocol KeyLock: Sendable {
  /// Puts the key under the passphrase. From now on each start of the broker is locked.
  ///
  /// - Parameter passphrase: nil: the passphrase of the previous lock.
  /// - Returns: what remains readable, for people.
  func prepare(_ passphrase: SecretText?) async throws(RPCError) -> [String]
  /// Ends this broker in order; the locked one has its place.
  func lock()
}
