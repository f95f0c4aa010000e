import Broker
import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth
import Providers

/// One machine of a fleet: its broker, its clock, and when its process is stopped.
final class FleetMachine: @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  enum Way {
    case store, network
  }

  let number: Int
  unowned let fleet: Fleet
  let wallOffset: Moment
  private let sleeps: FleetSleeps
  private(set) var stoppedUntil: Moment = 0
  /// Steps that wait for the stop's end.
  private var waiting: [() -> Void] = []
  private(set) var broker: Broker?
  private(set) var router: Router?
  let changes: AsyncStream<ChangesElsewhere>.Continuation
  private let stream: AsyncStream<ChangesElsewhere>

  init(_ number: Int, _ fleet: Fleet, wallOffset: Moment) {
    self.number = number
    self.fleet = fleet
    self.wallOffset = wallOffset
    sleeps = FleetSleeps(fleet)
    (stream, changes) = AsyncStream.makeStream()
  }

  func start() {
    sleeps.machine = self
    Task {
      let system = SystemDependencies(
        now: { [self] in World.epoch + .milliseconds(fleet.now + wallOffset) },
        uptime: { [self] in .milliseconds(fleet.now + 1000) }, sleep: { [self] in await sleeps.sleep($0) },
        randomBytes: { [self] in fleet.entropy.bytes($0) })
      let broker = await Broker(
        store: FleetStore(fleet.database, self, stream), transport: FleetTransport(self), system: system,
        identity: BrokerIdentity(version: "0", pid: Int32(number)), configuration: fleet.configuration,
        logger: Logger(label: "fleet") { [self] _ in FleetLog(machine: self) },
        reloader: ModelReloads { [self] in fleet.configuration })
      do { try await broker.start() } catch { return fleet.violated(.store, "a broker cannot start: \(error)") }
      await broker.callbackListens(port: 8400, others: [], addresses: ["http://127.0.0.1:8400"])
      (self.broker, router) = (broker, Router(broker))
      Task { await broker.run() }
    }
  }

  /// The process is stopped, between two of its steps.
  func stop(_ length: Moment) {
    guard length > 0, fleet.now < fleet.healsAt else { return }
    let length = min(length, fleet.database.longestStop(of: number), fleet.healsAt - fleet.now)
    guard fleet.now + length > stoppedUntil else { return }
    fleet.counts.add("stops")
    fleet.trace.add(fleet.now, "m\(number) is stopped for \(length / second) s")
    stoppedUntil = max(stoppedUntil, fleet.now + length)
    fleet.time.at(stoppedUntil) { [self] in runAgain() }
  }

  /// The process runs again, earlier than it would have.
  func wake() {
    guard stoppedUntil > fleet.now else { return }
    fleet.counts.add("woken after a takeover")
    fleet.trace.add(fleet.now, "m\(number) runs again")
    stoppedUntil = fleet.now
    runAgain()
  }

  private func runAgain() {
    guard stoppedUntil <= fleet.now else { return }
    let steps = waiting
    waiting = []
    for step in steps { step() }
  }

  /// Continues when the process runs.
  func running(after wait: Moment) async {
    await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
      resume(continuation, at: fleet.now + wait)
    }
  }

  private func resume(_ continuation: UnsafeContinuation<Void, Never>, at moment: Moment) {
    fleet.time.at(moment) { [self] in
      guard stoppedUntil <= fleet.now else {
        waiting.append { continuation.resume() }
        return
      }
      continuation.resume()
    }
  }

  /// A message takes its time, and the process may stand still before its next step.
  func travel(_ way: Way) async {
    if fleet.network.chance(fleet.stopShare) {
      let isLong = fleet.network.chance(0.5)
      stop(
        isLong
          ? fleet.network.between(2 * minute, Fleet.longestStop) : fleet.network.logarithmic(second, Fleet.longestStop))
    }
    await running(after: way == .store ? fleet.network.between(0, 20) : fleet.network.between(5, 800))
  }

  func call<M: RPCMethod>(_ method: M.Type, _ params: M.Params, then: @escaping (Result<M.Result, RPCError>) -> Void) {
    guard let router else { return }
    let request = RPCRequest(method: M.name, params: JSON(encoding: params), isNotification: false)
    let heard = FleetHeard(then: then)
    Task {
      await running(after: 0)
      switch await router.respond(to: request, session: Client()) {
      case .success(let json): if let result = try? json.decode(M.Result.self) { heard.then(.success(result)) }
      case .failure(let error): heard.then(.failure(error))
      }
    }
  }

  func end() {
    changes.finish()
    guard let broker else { return }
    Task { await broker.drain(until: .zero) }
    sleeps.end()
  }
}

/// Runs on the simulation's one thread.
private struct FleetHeard<Value>: @unchecked Sendable {
  let then: (Result<Value, RPCError>) -> Void
}

private struct FleetLog: LogHandler {
  let machine: FleetMachine
  var metadata: Logger.Metadata = [:]
  var logLevel: Logger.Level = .debug

  init(machine: FleetMachine) { self.machine = machine }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    machine.fleet.trace.note(machine.fleet.now, "    m\(machine.number) \(event.level): \(event.message)")
  }
}

/// The sleeps of a machine's broker: they end only while the process runs.
private final class FleetSleeps: @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  private let inner: Sleeps
  weak var machine: FleetMachine?

  init(_ fleet: Fleet) { inner = Sleeps(fleet.time) }

  func sleep(_ duration: Duration) async {
    await inner.sleep(duration)
    if let machine, machine.stoppedUntil > machine.fleet.now { await machine.running(after: 0) }
  }

  func end() { inner.end() }
}
