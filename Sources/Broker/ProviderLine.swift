import Grants
import OAuth

/// One provider as the broker knows it: its metadata and keys, and whether it may be asked now.
struct ProviderLine {
  /// Another where the provider went and came back: a place taken in one is not given back to the other.
  let id: UInt64
  var provider: any Provider
  /// Counts its settings: what was asked for under old ones is not kept under new ones.
  var settings: UInt64 = 0
  var metadata: Fetched<ServerMetadata>?
  var metadataTask: Task<Result<ServerMetadata, ProviderFailure>, Never>?
  var metadataFailure: (failure: ProviderFailure, at: Timestamp)?
  var keys: Fetched<JWKSet>?
  var keysTask: Task<Result<JWKSet, ProviderFailure>, Never>?
  var keysRefetchedAt: Timestamp?
  var keysFailedAt: Timestamp?
  /// The provider refuses this client: until then its refreshes rest.
  var suspension: (failure: Failure, until: Timestamp)?
  var lastError: String?
  /// Which refreshes it gets, and how fast.
  var gate = ProviderGate()
  /// Those that callers wait for and that have not begun, in the order in which they came.
  var wanted: [AccountName] = []
  /// Failed probes by account, in this outage.
  var probes: [AccountName: Int] = [:]
  /// How old its refresh tokens get.
  var learned = LearnedLifetime()
  /// How many accounts it has.
  var accounts = 0
  /// What servers want in the next DPoP proof, by origin (RFC 9449 §8).
  var nonces: [String: String] = [:]
  var skew: ClockSkew?
  var skewWasSaid = false

  struct Fetched<Value: Sendable>: Sendable {
    var value: Value
    var at: Timestamp

    mutating func moves(by step: Duration) { at = at + step }
  }

  init(_ provider: any Provider, id: UInt64, learned: LearnedLifetime = LearnedLifetime()) {
    self.provider = provider
    self.id = id
    self.learned = learned
  }

  /// How the last fetch of the metadata failed, if that was so short a time ago.
  func metadataFailed(within pause: Duration, at now: Timestamp) -> ProviderFailure? {
    guard let (failure, at) = metadataFailure, now >= at, now - at < pause else { return nil }
    return failure
  }

  /// Why the provider rests now, if it does. A rest longer than any is from before the clock was set back.
  func suspended(at now: Timestamp) -> Failure? {
    guard let suspension, suspension.until > now, suspension.until - now <= Limit.suspension else { return nil }
    return suspension.failure
  }

  /// Nothing learned under other settings, or on another network, counts.
  mutating func forgetWhatWasLearned() {
    settings += 1
    metadata = nil
    metadataTask = nil
    metadataFailure = nil
    keys = nil
    keysTask = nil
    keysRefetchedAt = nil
    keysFailedAt = nil
    suspension = nil
    lastError = nil
  }

  /// Somebody set the clock.
  mutating func clockStepped(by step: Duration) {
    metadata?.moves(by: step)
    keys?.moves(by: step)
    metadataFailure = nil
    keysRefetchedAt = nil
    keysFailedAt = nil
    // A client that proves itself with the time may have been refused for that.
    suspension = nil
    skew = nil
    skewWasSaid = false
  }
}
