import Grants
import OAuth

/// One provider as the broker knows it: its metadata and keys, and whether it may be asked now.
struct ProviderLine {
  var provider: any Provider
  var metadata: Fetched<ServerMetadata>?
  var metadataTask: Task<Result<ServerMetadata, ProviderFailure>, Never>?
  var metadataFailure: (failure: ProviderFailure, at: Timestamp)?
  var keys: Fetched<JWKSet>?
  var keysTask: Task<Result<JWKSet, ProviderFailure>, Never>?
  var keysRefetchedAt: Timestamp?
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

  init(_ provider: any Provider) {
    self.provider = provider
  }
}
