import Broker
import BrokerAPI
import HTTPServer
import Listening
import Logging
import NIOPosix
import Synchronization

/// One address at which HTTP is served, if it is configured. One that is taken stops no token from being
/// served.
actor LocalServing {
  /// Between attempts to get a taken address.
  private static let retryPause = Duration.seconds(3)

  private let setting: Setting
  private let logger: Logger
  private var application: (any HTTPApplication)?
  private var wanted: LocalListener?
  /// After a reload that could not listen elsewhere, this is still the server of before.
  private var served: Opened?
  private var retry: Task<Void, Never>?
  /// A server that a reload opened before anything else changed, and how many reloads wait to use it.
  private var prepared: (opened: Opened, users: Int)?
  private var preparations = SerialTasks<Result<Void, RPCError>>()
  /// The last failure in the log, so that attempts do not fill it.
  private var logged: String?
  private let shown = Mutex<BrokerStatus.ListenerView?>(nil)
  private var isClosed = false
  private var changes = SerialTasks<String?>()

  struct Setting {
    /// Such as `metrics`, for messages.
    var name: String
    /// Such as `[metrics] listen`.
    var key: String
    /// The path of its page.
    var path = ""
    var limits = HTTPServer.Limits()
    /// Holds the sockets of a port over a restart; nil: they are not held.
    var keeper: SocketKeeper?
  }

  /// A server that listens.
  private struct Opened {
    let server: HTTPServer
    let address: LocalListener
    /// The address for users, with the port that the kernel chose.
    let place: String
  }

  init(_ setting: Setting, logger: Logger) {
    self.setting = setting
    self.logger = logger
  }

  /// Nil: not configured.
  nonisolated var view: BrokerStatus.ListenerView? { shown.withLock { $0 } }

  func open(_ address: LocalListener?, _ application: any HTTPApplication) async {
    self.application = application
    // The socket may have taken a reload by now: its settings are newer.
    let isReloaded = changes.latest != nil
    _ = await change { wanted in isReloaded ? wanted : address }
  }

  /// Opens a changed address and keeps the current one, so that a reload to a taken address changes nothing.
  ///
  /// - Throws: the fault of the address, and the next step.
  func prepare(_ address: LocalListener?) async throws(RPCError) {
    let preparation = preparations.add {
      do throws(RPCError) { return .success(try await self.prepareNow(address)) } catch { return .failure(error) }
    }
    try await preparation.value.get()
  }

  private func prepareNow(_ address: LocalListener?) async throws(RPCError) {
    // Two reloads at once want the same address: of two servers in one place only one can listen.
    if prepared?.opened.address == address, prepared != nil {
      prepared?.users += 1
      return
    }
    await removePrepared()
    // A wanted address is tried again automatically, and only one of two servers can listen at one place.
    guard !isClosed, let address, let application, address != wanted, address != served?.address, !isServing(address)
    else { return }
    let new = server(at: address, application)
    do throws(HTTPServerError) {
      prepared = (Opened(server: new, address: address, place: try await new.start()), 1)
    } catch {
      await new.stop()
      // Another reload has begun to serve it during this time.
      if address == wanted || address == served?.address { return }
      throw RPCError(
        .invalidConfiguration, "\(setting.name) cannot be served on \(error.place): \(error.message)",
        hint: error.hint(setting.key))
    }
  }

  /// Closes what ``prepare(_:)`` opened for this address, if it is not in use by now.
  func abandon(_ address: LocalListener?) async {
    guard let prepared, prepared.opened.address == address else { return }
    guard prepared.users == 1 else {
      self.prepared?.users -= 1
      return
    }
    await removePrepared()
  }

  private func removePrepared() async {
    let unused = prepared?.opened.server
    prepared = nil
    await unused?.retire()
  }

  func isServing(_ address: LocalListener) -> Bool { served.map { $0.address.isSamePlace(as: address) } ?? false }

  private func server(at address: LocalListener, _ application: any HTTPApplication) -> HTTPServer {
    HTTPServer(
      address: address, limits: setting.limits, keeper: setting.keeper, group: MultiThreadedEventLoopGroup.singleton,
      logger: logger, application: application)
  }

  /// Listens at these settings' addresses, and no longer at others. Failures are logged, returned, and tried again.
  func update(_ address: LocalListener?) async -> String? { await change { _ in address } }

  /// In its turn; `address` makes the wanted address of the one that is wanted then.
  private func change(_ address: @escaping @Sendable (LocalListener?) -> LocalListener?) async -> String? {
    await changes.add { await self.apply(address) }.value
  }

  /// - Parameter limit: how long requests under way may take.
  func close(within limit: Duration) async {
    isClosed = true
    retry?.cancel()
    _ = await changes.latest?.value
    await removePrepared()
    await served?.server.stop(within: limit)
  }

  private func apply(_ change: @Sendable (LocalListener?) -> LocalListener?) async -> String? {
    let address = change(wanted)
    guard !isClosed, address != wanted || address != served?.address else { return nil }
    retry?.cancel()
    wanted = address
    // A setting that could not be served is corrected back to the address that still is.
    if let served, address == served.address {
      shown.withLock { $0 = .init(setting: setting.key, address: served.place, state: "ok") }
      return nil
    }
    // Two servers cannot have one port or path. Otherwise the old address is given up only when the new one is served: until
    // then another user could take it, and receive the requests of clients that still use it.
    if address == nil || application == nil || address.map(isServing) ?? false { await retire() }
    guard let address, let application else {
      shown.withLock { $0 = nil }
      return nil
    }
    let opened = prepared.flatMap { $0.opened.address == address ? $0.opened : nil }
    if opened == nil { await removePrepared() }
    prepared = nil
    let new = opened?.server ?? server(at: address, application)
    do throws(HTTPServerError) {
      let place = if let opened { opened.place } else { try await new.start() }
      let isSocket = if case .unix = address { true } else { false }
      logger.notice(
        "serving \(setting.name)", metadata: ["address": "\(isSocket ? place : "http://\(place)\(setting.path)")"])
      await retire()
      (served, logged) = (Opened(server: new, address: address, place: place), nil)
      shown.withLock { $0 = .init(setting: setting.key, address: place, state: "ok") }
      return nil
    } catch {
      await new.stop()
      let problem = "\(setting.name) cannot be served on \(error.place): \(error.message)"
      let (hint, message) = (error.hint(setting.key), "\(problem); \(error.hint(setting.key))")
      shown.withLock {
        $0 = .init(setting: setting.key, address: error.place, state: "failed", message: problem, hint: hint)
      }
      if logged != message { logger.error("\(message)") }
      logged = message
      retry = Live.retry(after: Self.retryPause) { _ = await self.change { $0 } }
      return message
    }
  }

  private func retire() async {
    await served?.server.retire()
    served = nil
  }
}

extension LocalListener {
  /// Whether both cannot be served at once.
  fileprivate func isSamePlace(as other: LocalListener?) -> Bool {
    switch (self, other) {
    case (.loopback(_, let one), .loopback(_, let two)): one == two
    case (.unix(let one), .unix(let two)): one == two
    default: false
    }
  }

  init(_ address: LocalAddress) {
    switch address {
    case .loopback(let host, let port): self = .loopback(host: host, port: port)
    case .unix(let path): self = .unix(path: path)
    }
  }
}
