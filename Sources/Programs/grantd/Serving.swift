import Broker
import BrokerAPI
import Logging
import OAuth
import SystemEvents
import Systemd
import UnixSignals
import UnixSocket

/// The time between READY and the end.
struct Serving: Sendable {
  let broker: Broker
  let server: SocketServer
  let credentials: CredentialServing
  let callbacks: CallbackServing
  let notifier: Notifier
  let lock: UserLock?
  /// The summary of accounts in the status of READY.
  let summary: String
  let logger: Logger

  /// Serves until SIGTERM or SIGINT, which may have come since the signals were trapped.
  ///
  /// - Returns: when the stop began.
  func run(until signals: UnixSignalsSequence) async -> Duration {
    let system = SystemEvents(reading: Live.clocks)
    defer { system.close() }
    if let limitation = system.limitation { logger.debug("\(limitation)") }
    // Nothing waits for their end: on a disk that hangs they have none.
    let tasks = [
      Task { await broker.run() },
      Task { await broker.keepTrail() },
      Task { await broker.watchStore() },
      Task { await FreedMemory.keepGivingBack() },
      Task { for await event in system.events { await broker.recheck(event.cause) } },
    ]
    let summaries = Task { await broker.reportSummary(since: summary) { [notifier] in notifier.status($0) } }
    defer { for task in tasks { task.cancel() } }
    for await signal in signals {
      guard signal == .sighup else { break }
      // SIGHUP reloads too, for habit and for `Type=notify-reload`.
      Task { await reload() }
    }
    let began = Live.uptime()
    summaries.cancel()
    await summaries.value
    if lock?.isWanted == true {
      notifier.status("locking: waiting for refreshes under way")
    } else {
      notifier.stopping(status: "stopping: waiting for refreshes under way")
      logger.notice("stopping")
    }
    await callbacks.standBack()
    async let callers: Void = server.drain(deadline: Daemon.callersDrainTime)
    async let refreshes: Void = broker.drain(until: began + Daemon.drainTime)
    async let units: Void = credentials.drain(deadline: Daemon.callersDrainTime)
    _ = await (callers, refreshes, units)
    return began
  }

  private func reload() async {
    notifier.reloading(monotonic: Live.monotonic())
    do throws(RPCError) {
      for warning in try await broker.reload().warnings { logger.warning("\(warning)") }
    } catch {
      logger.error("the configuration was not reloaded; the old one stays active: \(error.message)")
    }
    notifier.ready(status: await broker.currentSummary)
  }
}

extension SystemEvent {
  fileprivate var cause: RecheckCause {
    switch self {
    case .networkUp: .networkUp
    case .resumed: .resumed
    case .clockStepped: .clockStepped
    }
  }
}
