import BrokerAPI
import Grants

/// The counts for `broker.metrics`: by provider, so their number is limited by the configuration.
@BrokerActor
final class Metrics {
  /// Upper bounds in seconds; a request to a provider takes from some milliseconds to the transport's time-out.
  nonisolated static let refreshBuckets: [Duration] = [
    .milliseconds(50), .milliseconds(100), .milliseconds(250), .milliseconds(500), .seconds(1), .milliseconds(2500),
    .seconds(5), .seconds(10), .seconds(30), .seconds(60),
  ]
  /// A commit waits for the disk: a fraction of a millisecond to seconds on a disk in trouble.
  nonisolated static let commitBuckets: [Duration] = [
    .microseconds(500), .milliseconds(1), .microseconds(2500), .milliseconds(5), .milliseconds(10), .milliseconds(25),
    .milliseconds(50), .milliseconds(100), .milliseconds(500), .seconds(1), .seconds(5),
  ]

  struct Provider: Sendable {
    var refreshes: [RefreshOutcome: UInt64] = [:]
    var refreshDuration = Histogram(bounds: Metrics.refreshBuckets)
    var loginsCompleted: UInt64 = 0
    var loginsFailed: UInt64 = 0
    var unreachable: UInt64 = 0
    var ended: [LoginReason: UInt64] = [:]
    /// Those without callers and without an announcement.
    var lost: UInt64 { ended.reduce(0) { $0 + ($1.key.isLoss ? $1.value : 0) } }
  }

  private(set) var providers: [ProviderName: Provider] = [:]
  private(set) var commits: UInt64 = 0
  private(set) var failedCommits: UInt64 = 0
  private(set) var commitDuration = Histogram(bounds: Metrics.commitBuckets)
  private(set) var eventsDropped: UInt64 = 0
  /// The counts of other parts of the daemon.
  let edges: Broker.Edges

  init(_ edges: Broker.Edges = Broker.Edges()) { self.edges = edges }

  /// A refresh came to its end.
  ///
  /// - Parameter took: from its begin to its end, the wait for a place at the provider and the commit included.
  func refreshEnded(_ provider: ProviderName, _ outcome: RefreshOutcome, took: Duration) {
    providers[provider, default: Provider()].refreshes[outcome, default: 0] += 1
    providers[provider, default: Provider()].refreshDuration.observe(took)
  }

  /// The store answered a commit.
  func committed(took: Duration, failed: Bool) {
    if failed { failedCommits += 1 } else { commits += 1 }
    commitDuration.observe(took)
  }

  func loginEnded(_ provider: ProviderName, succeeded: Bool) {
    if succeeded {
      providers[provider, default: Provider()].loginsCompleted += 1
    } else {
      providers[provider, default: Provider()].loginsFailed += 1
    }
  }

  /// The provider stopped to answer: its refreshes become probes.
  func providerUnreachable(_ provider: ProviderName) {
    providers[provider, default: Provider()].unreachable += 1
  }

  func grantEnded(_ provider: ProviderName, _ reason: LoginReason) {
    providers[provider, default: Provider()].ended[reason, default: 0] += 1
  }

  /// A subscriber did not take an event: it was too slow, and is cut off.
  func eventDropped() { eventsDropped += 1 }

  /// Forgets a provider that is no longer configured.
  func remove(_ provider: ProviderName) { providers[provider] = nil }
}

enum RefreshOutcome: String, Sendable, CaseIterable {
  /// A new token is on disk.
  case success
  /// It is repeated automatically.
  case retry
  /// The provider ended the grant: the user must sign in.
  case ended
  /// The provider refuses this client: an administrator must correct the configuration.
  case misconfigured
  /// Its answer was no longer needed.
  case discarded
}

/// How often something took how long.
struct Histogram: Sendable, Equatable {
  let bounds: [Duration]
  /// For each bound, and above the last: not cumulative.
  private(set) var counts: [UInt64]
  private(set) var sum = Duration.zero

  init(bounds: [Duration]) {
    self.bounds = bounds
    counts = Array(repeating: 0, count: bounds.count + 1)
  }

  /// A time below zero, from a clock that was set back, counts as none.
  mutating func observe(_ time: Duration) {
    let time = max(time, .zero)
    counts[bounds.firstIndex { time <= $0 } ?? bounds.count] += 1
    sum += time
  }
}
