import Broker
import BrokerAPI
import Foundation
import Grants
import Logging
import OAuth
import Principals
import Providers
import SQLiteStore
import Scheduling
import Sealing

/// One seed's world: a broker, its machine, providers, users and programs.
final class World: @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  static let epoch = Timestamp(seconds: 1_800_000_000)

  let seed: UInt64
  /// The folder of the real store, if there is one.
  private(set) var stateFolder: String?
  let options: Options
  var plan: Randomness
  var order: Randomness
  var clients: Randomness
  private var entropy: Randomness
  var more: Randomness
  var limits: Randomness
  let time: VirtualTime
  let trace: Trace
  var counts = Counts()
  var violation: Violation?

  var providers: [ModelProvider] = []
  var accounts: [ModelAccount] = []
  var accountsByName: [AccountName: ModelAccount] = [:]
  var hazards: Set<Hazard> = []
  private(set) var disk: ModelDisk!
  private(set) var network: ModelNetwork!

  /// The number of the broker's run; it only increases, so that state of an earlier run is recognized.
  private(set) var run = 0
  private(set) var machine: Machine?
  private var hanging: [UnsafeContinuation<Void, Never>] = []
  /// How far the wall clock is off.
  var wallOffset: Moment = 0
  var steppedAt: Moment = .min / 2
  var resumedAt: Moment = .min / 2
  var runningSince: Moment = .min / 2
  var stillness = Stillness()
  /// From then on no fault occurs.
  var healsAt: Moment = 0
  var bootedAt: Moment = -1000
  /// Accounts that were looked at in the end.
  var concluded: Set<Int> = []
  /// Accounts that had to prove their refresh token.
  var examined: Set<Int> = []
  /// Providers ask for waits of an hour.
  var waitsLong = false
  var isDone = false
  var calls = Calls()

  init(seed: UInt64, options: Options, isTraced: Bool) {
    self.seed = seed
    self.options = options
    plan = Randomness(seed: seed, .plan)
    order = Randomness(seed: seed, .order)
    clients = Randomness(seed: seed, .clients)
    entropy = Randomness(seed: seed, .entropy)
    more = Randomness(seed: seed, .more)
    limits = Randomness(seed: seed, .limits)
    time = VirtualTime(Randomness(seed: seed &+ 0x5eed, .order))
    trace = Trace(isKept: isTraced)
    disk = ModelDisk(self, seed: seed)
    network = ModelNetwork(self, seed: seed)
  }

  var now: Moment { time.now }
  var trueTime: Timestamp { Self.epoch + .milliseconds(now) }
  var wall: Timestamp { trueTime + .milliseconds(wallOffset) }

  /// Runs to the end, or to the first violation.
  func live() {
    var scenario = Scenario(self)
    scenario.prepare()
    if let folder = options.folder {
      stateFolder = "\(folder)/0"
      fillFolder()
    }
    boot()
    settle()
    while violation == nil, !isDone, let action = time.next() {
      action()
      settle()
    }
    end()
  }

  private func settle() {
    guard !stillness.isNow else { return }
    let jobs = stillness.coming?.jobs
    switch Scheduler.shared.drain(&order, atMost: jobs) {
    case .endless: violated(.progress, "the broker works without end, and no time passes")
    case .done(let count): stillness.coming?.jobs -= count
    case .stopped: freeze()
    }
  }

  func violated(_ invariant: Invariant, _ detail: String) {
    guard violation == nil else { return }
    trace.add(now, "✘ \(invariant.rawValue): \(detail)")
    violation = Violation(invariant: invariant, detail: detail, at: now)
  }

  /// The state of the machine.
  var uptime: Duration { .milliseconds(now - bootedAt) }

  // MARK: The broker's process

  /// A run of the broker.
  final class Machine: @unchecked Sendable {
    // All of a simulation is on one thread, which the scheduler sees to.
    let broker: Broker
    let router: Router
    let store: ModelStore
    let sleeps: Sleeps
    var clockwork: Task<Void, Never>?
    var isServing = false

    init(broker: Broker, router: Router, store: ModelStore, sleeps: Sleeps) {
      self.broker = broker
      self.router = router
      self.store = store
      self.sleeps = sleeps
    }
  }

  func system(_ sleeps: Sleeps) -> SystemDependencies {
    SystemDependencies(
      now: { self.wall }, uptime: { self.uptime },
      sleep: { await sleeps.sleep($0) }, randomBytes: { self.entropy.bytes($0) })
  }

  func boot() {
    run += 1
    counts.add("starts")
    trace.add(now, "the broker starts")
    let run = run
    let sleeps = Sleeps(time)
    let real: SQLiteStore?
    do {
      real = try stateFolder.map { try SQLiteStore.open(folder: $0, key: World.key) }
    } catch {
      return violated(.store, "the store cannot be opened: \(error)")
    }
    let store = ModelStore(disk, run: run, real: real)
    Task { await self.start(store, sleeps, run: run) }
  }

  private func start(_ store: ModelStore, _ sleeps: Sleeps, run: Int) async {
    var edges = Broker.Edges()
    edges.onEvent = { [self] event in if run == self.run { heard(of: event) } }
    let broker = await Broker(
      store: store, transport: ModelTransport(network, run: run), system: system(sleeps),
      identity: BrokerIdentity(version: "0", pid: 1), configuration: configuration, logger: logger,
      wholeAccounts: seed.isMultiple(of: 2) ? 1 : 128, edges: edges,
      reloader: ModelReloads { self.configuration })
    guard run == self.run else { return }
    let machine = Machine(broker: broker, router: Router(broker), store: store, sleeps: sleeps)
    self.machine = machine
    await start(machine, run: run)
  }

  private func start(_ machine: Machine, run: Int) async {
    do {
      try await machine.broker.start()
    } catch {
      guard run == self.run else { return }
      trace.add(now, "the broker cannot start: \(error)")
      // As the service manager does.
      time.after(10 * second) { if run == self.run { self.crash("it could not start", restartAfter: 0) } }
      return
    }
    guard run == self.run else { return }
    machine.clockwork = Task { await machine.broker.run() }
    await machine.broker.callbackListens(port: 8400, others: [], addresses: ["http://127.0.0.1:8400"])
    guard run == self.run else { return }
    machine.isServing = true
    runningSince = now
  }

  var configuration: BrokerConfiguration {
    BrokerConfiguration(
      providers: providers.map { OAuthProvider($0.settings) },
      policy: Policy(instance: .user, owner: Client.process.uid, rules: []), refresh: RefreshPolicy(), path: nil)
  }

  private var logger: Logger {
    guard trace.isKept else { return Logger(label: "simulation") { _ in SwiftLogNoOpLogHandler() } }
    let run = run
    return Logger(label: "simulation") { _ in TraceLog(self, run: run) }
  }

  static let key: SealingKey = {
    do {
      return try SealingKey(Data((0..<32).map { UInt8($0) }), source: "simulation")
    } catch {
      fatalError("\(error)")
    }
  }()

  /// No account can return from a removed database.
  var canEnd: Bool { machine != nil && disk.trouble != .missing }

  /// The process has ended: its memory is lost.
  func crash(_ why: String, restartAfter: Moment? = nil) {
    guard let machine, canEnd else { return }
    counts.add("crashes")
    trace.add(now, "✝ the broker's process ends (\(why))")
    let wait = restartAfter ?? plan.logarithmic(100, 10 * minute)
    isLost()
    if machine.isServing { leaveFolder() }
    stillness.ends(at: now)
    bury(machine)
    time.after(wait) { self.boot() }
  }

  /// Ends the jobs of a dead process without a trace, so that its memory is freed.
  private func bury(_ machine: Machine) {
    self.machine = nil
    run += 1
    network.crash()
    disk.crash()
    for continuation in hanging { continuation.resume() }
    hanging = []
    machine.clockwork?.cancel()
    let uptime = uptime
    Task { await machine.broker.drain(until: uptime) }
    settle()
    // A caller that tries again has seen the end by now.
    machine.sleeps.end()
    settle()
    Task { await machine.store.close() }
    settle()
    calls.removeAll()
  }

  /// As the service manager stops it: running operations end, and are on disk.
  func restart() {
    // A stopped process gets the signal when it continues.
    guard let machine, machine.isServing, canEnd, isRunning({ self.restart() }) else { return }
    counts.add("restarts")
    trace.add(now, "the broker gets a request to stop")
    machine.isServing = false
    let (run, toldAt) = (run, now)
    let deadline = uptime + .seconds(35)
    Task {
      await machine.broker.drain(until: deadline)
      let unsaved = await machine.broker.unsaved().map(\.account)
      guard run == self.run else { return }
      checkHandover(unsaved, since: toldAt)
      self.time.after(0) { if run == self.run { self.crash("it has stopped", restartAfter: second) } }
    }
  }

  /// A killed process does not change its files: the next one starts with a copy of them, made before this one's
  /// store is closed.
  private func leaveFolder() {
    guard let old = stateFolder, let folder = options.folder else { return }
    let new = "\(folder)/\(run)"
    do {
      try FileManager.default.createDirectory(
        atPath: new, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      for name in ["grantd.db", "grantd.db-wal"] where FileManager.default.fileExists(atPath: "\(old)/\(name)") {
        try FileManager.default.copyItem(atPath: "\(old)/\(name)", toPath: "\(new)/\(name)")
      }
    } catch {
      return violated(.store, "the store's files cannot be copied: \(error)")
    }
    stateFolder = new
  }

  /// The contents before the simulation began.
  private func fillFolder() {
    guard let stateFolder else { return }
    counts.add("real stores")
    let changes = disk.contents.state.all
    Task {
      Scheduler.shared.goesOutside()
      do {
        let store = try SQLiteStore.open(folder: stateFolder, key: World.key)
        try await store.commit(changes)
        await store.close()
      } catch {
        self.violated(.store, "the store cannot be filled: \(error)")
      }
      Scheduler.shared.isBack()
    }
    settle()
  }

  func untilCrash() async { await withUnsafeContinuation { hanging.append($0) } }

  private func end() {
    if let machine { bury(machine) }
    time.removeAll()
  }
}

extension StoredState {
  fileprivate var all: [Change] { grants.map { .putGrant($0) } + tokens.map { .putToken($0) } }
}

/// The broker's sleeps, which end with its process.
final class Sleeps: @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  private struct Sleeper {
    let timer: VirtualTime.TimerID
    let continuation: UnsafeContinuation<Void, Never>
  }

  private let time: VirtualTime
  private var sleepers: [UInt64: Sleeper] = [:]
  private var cancelled: Set<UInt64> = []
  private var last: UInt64 = 0
  private var isOver = false

  init(_ time: VirtualTime) { self.time = time }

  func sleep(_ duration: Duration) async {
    last += 1
    let id = last
    // Not within one job, or a loop of them could not be told from progress.
    if isOver {
      // Task.yield() passes by the scheduler.
      return await withUnsafeContinuation { continuation in
        Task { continuation.resume() }
      }
    }
    await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        guard duration > .zero, cancelled.remove(id) == nil else { return continuation.resume() }
        let wait = max(1, (duration + .microseconds(999)).milliseconds)
        let timer = time.after(wait) { self.wake(id) }
        sleepers[id] = Sleeper(timer: timer, continuation: continuation)
      }
    } onCancel: {
      guard let sleeper = sleepers.removeValue(forKey: id) else {
        cancelled.insert(id)
        return
      }
      time.cancel(sleeper.timer)
      sleeper.continuation.resume()
    }
  }

  private func wake(_ id: UInt64) { sleepers.removeValue(forKey: id)?.continuation.resume() }

  func end() {
    isOver = true
    let all = sleepers
    sleepers = [:]
    for sleeper in all.values {
      time.cancel(sleeper.timer)
      sleeper.continuation.resume()
    }
  }
}

/// The log of the broker, in the trace.
struct TraceLog: LogHandler {
  let world: World
  let run: Int
  var metadata: Logger.Metadata = [:]
  var logLevel: Logger.Level = .debug

  init(_ world: World, run: Int) {
    self.world = world
    self.run = run
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    // The log of a dead process has no effect.
    guard world.run == run else { return }
    world.trace.note(world.now, "    \(event.level): \(event.message)")
  }
}
