import Logging
import Principals

/// Log lines of refusals that any local user can cause: ``Limit/refusalLines`` in a minute, and the number of others.
@BrokerActor
final class LimitedLog {
  private let runtime: Runtime
  /// The name of several refused things.
  private let things: String
  private var budget = LogBudget(Limit.refusalLines)
  private var isReportDue = false

  init(_ runtime: Runtime, of things: String) { (self.runtime, self.things) = (runtime, things) }

  func refused(
    _ text: @autoclosure () -> String, level: Logger.Level = .warning, metadata: @autoclosure () -> Logger.Metadata
  ) {
    if let omitted = budget.acquire(at: runtime.clock.uptime) {
      let more = omitted > 0 ? "; \(omitted) more before it" : ""
      return runtime.logger.log(level: level, "refused \(text())\(more)", metadata: metadata())
    }
    guard !isReportDue else { return }
    isReportDue = true
    let (sleep, things) = (runtime.clock.system.sleep, things)
    Task { [weak self] in
      await sleep(Limit.refusalReport)
      guard let self else { return }
      isReportDue = false
      if let omitted = budget.due(at: runtime.clock.uptime) {
        runtime.logger.warning("refused \(omitted) more \(things)")
      }
    }
  }
}
