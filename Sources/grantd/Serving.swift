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
  let logger: Logger

  /// Serves until SIGTERM or SIGINT, which may have come since the signals were trapped.
  func run(until signals: UnixSignalsSequence) async {
    let system = SystemEvents(reading: Live.clocks)
    defer { system.close() }
    if let limitation = system.limitation { logger.debug("\(limitation)") }
    await withDiscardingTaskGroup { group in
      group.addTask { await broker.run() }
      group.addTask { await broker.keepTrail() }
      group.addTask { await broker.watchStore() }
      group.addTask { await FreedMemory.keepGivingBack() }
      group.addTask { for await event in system.events { await broker.recheck(event.cause) } }
      for await signal in signals {
        guard signal == .sighup else { break }
        // SIGHUP reloads too, for habit and for `Type=notify-reload`.
        group.addTask { await reload() }
      }
      notifier.stopping(status: "stopping: waiting for refreshes under way")
      logger.notice("stopping")
      await callbacks.standBack()
      let deadline = Live.uptime() + Daemon.drainTime
      async let callers: Void = server.drain(deadline: Daemon.callersDrainTime)
      async let refreshes: Void = broker.drain(until: deadline)
      async let units: Void = credentials.drain(deadline: Daemon.callersDrainTime)
      _ = await (callers, refreshes, units)
      group.cancelAll()
    }
  }

  private func reload() async {
    notifier.reloading(monotonic: Live.monotonic())
    do throws(RPCError) {
      for warning in try await broker.reload().warnings { logger.warning("\(warning)") }
    } catch {
      logger.error("the configuration was not reloaded; the old one stays in force: \(error.message)")
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
