import Broker
import BrokerAPI
import GrantdConfiguration
import Logging
import MetricsEndpoint
import NIOPosix

/// The metrics over HTTP, where the configuration wants them. An address that is taken stops no token from being served.
actor MetricsServing {
  /// How often a taken address is tried again.
  private static let retryPause = Duration.seconds(30)

  private let logger: Logger
  private var scrape: (@Sendable () async -> String)?
  private var wanted: MetricsAddress?
  private var listener: MetricsListener?
  private var retry: Task<Void, Never>?
  private var isClosed = false
  /// The change that came last; the next begins when it has ended.
  private var latest: Task<String?, Never>?

  init(logger: Logger) {
    self.logger = logger
  }

  /// - Parameter scrape: the metrics as they are now, as text.
  func open(_ settings: Settings.MetricsSettings, scrape: @escaping @Sendable () async -> String) async {
    self.scrape = scrape
    // The socket may have taken a reload by now: its settings are newer.
    let isReloaded = latest != nil
    _ = await change { wanted in isReloaded ? wanted : settings.listen }
  }

  /// Listens where these settings say, and no more where others said. What cannot be had is logged,
  /// returned, and tried again.
  func update(_ settings: Settings.MetricsSettings) async -> String? { await change { _ in settings.listen } }

  /// In its turn; `address` makes the wanted address of the one that is wanted then.
  private func change(_ address: @escaping @Sendable (MetricsAddress?) -> MetricsAddress?) async -> String? {
    let before = latest
    let change = Task {
      _ = await before?.value
      return await apply(address(wanted))
    }
    latest = change
    return await change.value
  }

  func close() async {
    isClosed = true
    retry?.cancel()
    _ = await latest?.value
    await listener?.stop()
  }

  private func apply(_ address: MetricsAddress?) async -> String? {
    guard !isClosed, address != wanted || (address != nil && listener == nil) else { return nil }
    retry?.cancel()
    await listener?.stop()
    listener = nil
    wanted = address
    guard let address, let scrape else { return nil }
    let new = MetricsListener(
      address: address, group: MultiThreadedEventLoopGroup.singleton, logger: logger, scrape: scrape)
    do throws(MetricsListenerError) {
      let place = try await new.start()
      logger.notice("serving metrics", metadata: ["address": "\(place)"])
      listener = new
      return nil
    } catch {
      logger.error("\(error.description)")
      tryAgain()
      return error.description
    }
  }

  private func tryAgain() {
    retry = Task {
      try? await ContinuousClock().sleep(for: Self.retryPause)
      guard !Task.isCancelled else { return }
      // Not within this task: the change would cancel it.
      Task { _ = await change { $0 } }
    }
  }
}
