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
  /// Requests under way, and those that wait for a place.
  var inFlight = 0
  var queue: [CheckedContinuation<Void, Never>] = []

  struct Fetched<Value: Sendable>: Sendable {
    var value: Value
    var at: Timestamp
  }

  init(_ provider: any Provider, id: UInt64) {
    self.provider = provider
    self.id = id
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
}
