import Broker
import BrokerAPI
import Logging
import OAuth
import ServiceLifecycle
import Systemd
import UnixSignals
import UnixSocket

/// The time between READY and the end.
struct Serving: Service {
  let broker: Broker
  let server: SocketServer
  let notifier: Notifier
  let logger: Logger

  func run() async throws {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await broker.run() }
      group.addTask { await reloadOnHangup() }
      try? await gracefulShutdown()
      notifier.stopping(status: "stopping: waiting for refreshes under way")
      logger.notice("stopping")
      let deadline = Live.now() + Daemon.drainTime
      async let callers: Void = server.drain(deadline: Daemon.callersDrainTime)
      async let refreshes: Void = broker.drain(until: deadline)
      _ = await (callers, refreshes)
      group.cancelAll()
    }
  }

  /// SIGHUP reloads too, for habit and for `Type=notify-reload`.
  private func reloadOnHangup() async {
    for await _ in await UnixSignalsSequence(trapping: .sighup) {
      notifier.reloading(monotonic: Live.monotonic())
      do throws(RPCError) {
        for warning in try await broker.reload().warnings { logger.warning("\(warning)") }
      } catch {
        logger.error("the configuration was not reloaded; the old one stays in force: \(error.message)")
      }
      notifier.ready(status: await broker.currentSummary)
    }
  }
}
