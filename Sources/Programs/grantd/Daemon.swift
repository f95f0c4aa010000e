import Broker
import BrokerAPI
import FoundationEssentials
import Glibc
import GrantdConfiguration
import Grants
import HTTPTransport
import Hooks
import Logging
import Loopback
import OAuth
import Platform
import Providers
import SQLiteStore
import Sealing
import Systemd
import TokenFiles
import UnixSignals
import UnixSocket

/// Everything wired together: store → broker → callback endpoint → socket → READY, and back in the other order.
struct Daemon: Sendable {
  /// The maximum time of a reported step of a start: a page of accounts, a migration of them all.
  static let stepTime = Duration.seconds(300)
  /// How long a refresh under way may hold up the end: its answer must reach the disk.
  /// Nearly all of the unit's TimeoutStopSec (45 s).
  static let drainTime = Duration.seconds(40)
  /// How long callers may wait for an answer once the end has begun.
  static let callersDrainTime = Duration.seconds(10)
  /// How long hooks may take to end, and files to close, at most. On a disk that hangs they never would.
  static let closingTime = Duration.seconds(8)
  /// When all has to be over, from the stop's beginning; the closing has a second in any case.
  static let stopTime = Duration.seconds(43)

  let places: Places
  let settings: Settings
  let logger: Logger
  let notifier = Notifier()

  func run() async throws {
    // Before there is anything to end: a signal that comes during the start waits until it can be obeyed in order.
    let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint, .sighup)
    let inherited = try inheritedSockets()
    let kept = KeptDescriptors(inherited)
    let activated = inherited.filter { !DescriptorStore.holds($0.name) }
    let listeners = activated.filter { $0.name != CredentialServing.name }
    let again = StartingAgain(activated)
    let lock = userLock
    let locked = LockedKey(folder: places.stateFolder(settings))
    if lock != nil, locked.isLocked {
      _ = kept.removeRest()
      return try await LockedServing(key: locked, again: again, notifier: notifier, logger: logger)
        .run(
          socketConfiguration(listeners, kept), store: places.stateFolder(settings), file: settings.files.first,
          until: signals)
    }
    let opening = StoreOpening(places: places, settings: settings, notifier: notifier, logger: logger)
    let own = try opening.own(emergencyStore)
    try await emergencyStore.takeOver(into: own, logger)
    let store = try await opening.store(own)
    let audit = AuditFile(folder: places.stateFolder(settings))
    let transport = HTTPTransport(
      userAgent: "grantd/\(GrantdVersion.current)", uptime: Live.system.uptime)
    transport.use(settings.proxies)
    let callbacks = CallbackServing(keeper: kept.keeper("callback"), logger: logger)
    let http = HTTPServing(places, kept, logger: logger)
    let loopback = LoopbackApplication(
      transport, upstreams: { transport.upstreams(on: $0) }, now: Live.system.now)
    if places.instance == .system { loopback.serveSystem() }
    loopback.configure(settings.loopback)
    let hooks = Hooks(
      environment: Environment.own, uptime: { Live.uptime() }, logger: logger)
    let desktop = Desktop(logger: logger)
    let page = PageServing(
      Live.system, commands: OwnGrantctl(places, socket: places.socketPath(settings)), logger: logger)
    let socket = socketConfiguration(listeners, kept)
    let load = SocketServer.Load(limits: socket.limits)
    let broker = await Broker(
      store: store.store, transport: transport, system: Live.system,
      identity: BrokerIdentity(version: GrantdVersion.current, pid: getpid(), host: Live.host),
      configuration: BrokerConfiguration(settings, places), logger: logger, registrar: ClientRegistrar(),
      auditStore: audit, administration: store.administration,
      tokenFiles: FileDisk(own: places.tokenFolder(settings), membership: { UserDatabase.membership(of: $0) }),
      edges: edges(load, http, hooks, desktop, page, lock),
      reloader: Reloads(
        places: places, settings: settings, transport: transport, callbacks: callbacks, http: http, loopback: loopback,
        hooks: hooks, desktop: desktop))
    do throws(StoreError) {
      try await broker.start { [notifier] read, all in
        notifier.status("reading accounts: \(read) of \(all)")
        notifier.extendTimeout(by: Self.stepTime)
      }
    } catch {
      throw DaemonFailure(error)
    }
    // Damage may show only as the accounts are read.
    for notice in own.repairsToLog() { logger.error("\(notice)") }
    // Before the socket takes a reload, whose settings are newer.
    hooks.replace(by: settings.hooks)
    await callbacks.open(settings, broker: broker, preferredPort: broker.previousCallbackPort)
    let router = Router(broker)
    loopback.serve(router)
    let server = SocketServer(configuration: socket, dispatcher: router, load: load, logger: logger)
    do throws(SocketServerError) {
      try await server.start()
    } catch {
      await hooks.stop()
      await store.store.close()
      throw DaemonFailure(
        message: error.description, hint: error.hint, status: error.isConfiguration ? 78 : 1)
    }
    let credentials = CredentialServing(places, settings, activated, kept, broker: broker, logger: logger)
    await credentials.start()
    await http.open(settings, broker, loopback)
    if lock != nil { desktop.begin(broker, settings) }
    let rest = kept.removeRest()
    if !rest.isEmpty { logger.notice("closed, as nothing wants it any more: \(rest.joined(separator: ", "))") }
    let summary = await broker.currentSummary
    notifier.ready(status: summary)
    let verification = Task { await broker.verify() }
    defer { verification.cancel() }
    logger.notice(
      "serving",
      metadata: [
        "socket": "\(listeners.isEmpty ? places.socketPath(settings) : "inherited")",
        "state": "\(store.store.location)", "version": "\(GrantdVersion.current)",
      ])
    let stopBegan = await serve(
      Serving(
        broker: broker, server: server, credentials: credentials, callbacks: callbacks, notifier: notifier,
        lock: lock, summary: summary, logger: logger),
      until: signals)
    desktop.close()
    // First: the service manager gives the rest of the stop little time.
    let loss = await broker.loss
    let unsaved = await broker.unsaved()
    var failure =
      if let loss { emergencyStore.lost(unsaved, to: loss) } else {
        await emergencyStore.save(unsaved, with: broker.unsavedRest(), of: own, because: broker.storeFailure)
      }
    let left = stopBegan + Self.stopTime - Live.uptime()
    let closing = max(.seconds(1), min(Self.closingTime, left))
    let close = { @Sendable in
      async let hooksEnd: Void = hooks.stop()
      // Slow clients are cut off, so that the rest has time.
      _ = await wait(
        for: {
          async let callbacksEnd: Void = callbacks.close()
          async let pageEnd: Void = page.close(within: closing / 3)
          await http.close(within: closing / 3)
          await pageEnd
          await callbacksEnd
        }, within: closing / 2)
      await broker.finishTrail()
      await audit.close()
      await store.store.close()
      await transport.close()
      await hooksEnd
    }
    // Before work that may wait for a disk that hangs.
    failure?.log(to: logger)
    let isClosed = await wait(for: close, within: closing)
    if !isClosed {
      logger.warning(
        "closing files and connections took too long: the last records of the audit trail may be only in the log",
        metadata: ["hint": "Look whether the disk of the state folder hangs."])
    }
    if failure == nil, let lock, lock.isWanted {
      kept.removeAll()
      _ = locked.removeKeyFile()
      again.perform(logger)
    }
    if failure == nil { logger.notice("stopped") }
    await notifier.settle(within: .seconds(1))
    if let failure { throw failure }
  }

  /// - Returns: whether it was done in time.
  private func wait(for work: @escaping @Sendable () async -> Void, within limit: Duration) async -> Bool {
    let (ends, end) = AsyncStream.makeStream(of: Void.self)
    let timer = Task {
      try? await Task.sleep(for: limit)
      end.finish()
    }
    Task {
      await work()
      end.yield()
      end.finish()
    }
    defer { timer.cancel() }
    for await _ in ends { return true }
    return false
  }

  /// - Returns: when the stop began.
  private func serve(_ serving: Serving, until signals: UnixSignalsSequence) async -> Duration {
    let watchdog = feedWatchdog(serving.server)
    defer { watchdog?.cancel() }
    return await serving.run(until: signals)
  }

  /// Fed by the loop that serves: where that hangs, systemd starts the service again.
  private func feedWatchdog(_ server: SocketServer) -> SocketServer.Repetition? {
    guard let interval = WatchdogInterval.current() else { return nil }
    return server.repeating(every: interval / 2) { [notifier] in notifier.watchdog() }
  }

  // MARK: Parts

  private func inheritedSockets() throws -> [ListenFDs.Listener] {
    do throws(ListenFDs.Failure) {
      return try ListenFDs.inherited()
    } catch {
      throw DaemonFailure(message: error.description, hint: "Check the .socket unit.", status: 1)
    }
  }

  /// The parts that the broker calls.
  private func edges(
    _ load: SocketServer.Load, _ http: HTTPServing, _ hooks: Hooks, _ desktop: Desktop, _ page: PageServing,
    _ lock: UserLock?
  ) -> Broker.Edges {
    var edges = Broker.Edges()
    edges.onEvent = { event in
      hooks.handle(event)
      desktop.handle(event)
    }
    edges.onLoss = { kill(getpid(), SIGTERM) }
    edges.metrics = {
      MetricsSources.families(load.statistics) + MetricsSources.families(hooks.statistics) + MetricsSources.process()
    }
    edges.heldBack = { MetricsSources.heldBack(load.statistics) }
    edges.listeners = { http.views }
    edges.keyLock = lock
    edges.page = page
    return edges
  }

  private func socketConfiguration(
    _ listeners: [ListenFDs.Listener], _ kept: KeptDescriptors
  ) -> SocketServer.Configuration {
    var limits = SocketServer.Limits()
    limits.connections = settings.socket.connections
    let most = SocketServer.connectionsOfUsersWithDescriptors
    if limits.connections > most {
      logger.warning(
        "[socket] connections = \(limits.connections): there are descriptors for \(most); further connections of users will be refused",
        metadata: ["hint": "Raise LimitNOFILE= of the service, or lower the setting."])
    }
    limits.connectionsPerUser = settings.socket.connectionsPerUser
    limits.requestsInFlight = settings.socket.requestsPerConnection
    limits.unanswered = settings.socket.requestMemory << 20
    limits.unansweredPerHolder = settings.socket.requestMemoryPerUser << 20
    limits.unsentOfAll = settings.socket.replyMemory << 20
    limits.unsentOfUser = settings.socket.replyMemoryPerUser << 20
    limits.linesPerSecond = settings.socket.linesPerSecond
    limits.bytesPerSecond = settings.socket.volumePerSecond << 20
    limits.unnamedShare = settings.socket.shareWithoutRule
    limits.idle = settings.socket.idleTimeout
    let isSystem = places.instance == .system
    var configuration = SocketServer.Configuration(
      endpoint: listeners.isEmpty
        ? .path(places.socketPath(settings)) : .inherited(listeners.map(\.descriptor)),
      // Any client may connect to the system instance: its policy decides, by the kernel's identification of the
      // caller.
      mode: settings.socket.mode ?? (isSystem ? 0o666 : 0o600), folderMode: isSystem ? 0o755 : 0o700, limits: limits)
    if listeners.isEmpty { configuration.keeper = kept.keeper("grantd") }
    return configuration
  }

  private var emergencyStore: EmergencyStore {
    let folders = [places.socketPath(settings), places.defaultSocket].map { socket in
      socket.contains("/") ? String(socket[..<(socket.lastIndex(of: "/") ?? socket.startIndex)]) : "."
    }
    return EmergencyStore(in: folders, state: places.stateFolder(settings), isUser: places.instance == .user)
  }

  /// Nil in the system instance: its releases are held instead, and its machine has no user to ask.
  private var userLock: UserLock? {
    guard places.instance == .user else { return nil }
    let (folder, settings, places) = (places.stateFolder(settings), settings, places)
    return UserLock(folder: folder) { () throws(StoreError) in
      try SealingKeys(settings.store.keyFile, folder: folder, credentials: places.credentialsDirectory).key
    }
  }
}

extension DaemonFailure {
  init(_ error: StoreError) {
    let status: Int32 =
      switch error {
      case .corrupt, .newer, .wrongKey, .unusableKey: 65
      case .owned, .unreadable, .unreadableAccount, .unwritable, .missing, .conflict, .shared, .unknown, .closed: 1
      }
    self.init(message: error.message, hint: error.hint, status: status)
  }
}
