import Broker
import BrokerAPI
import HTTPServer
import Logging
import NIOPosix
import Principals
import UserPages

/// The listener of the web page: open only while a link may be used or a page is open.
actor PageServing: PageOpener {
  /// How often it looks whether a page is open.
  private static let pause = Duration.seconds(20)

  private let system: SystemDependencies
  private let commands: (any OwnCommands)?
  private let logger: Logger
  /// Nil before the first link.
  private var pages: UserPages?
  private var server: HTTPServer?
  private var port: Int?
  private var watch: Task<Void, Never>?
  private var isClosed = false
  /// Each opening and closing.
  private var changes = SerialTasks<String?>()

  init(_ system: SystemDependencies, commands: (any OwnCommands)?, logger: Logger) {
    self.system = system
    self.commands = commands
    self.logger = logger
  }

  func open(for user: UInt32, by opener: any Session, of broker: Broker) async throws(RPCError) -> UIOpen.Result {
    let pages = self.pages ?? UserPages(Router(broker), system, commands: commands)
    self.pages = pages
    let failure = await inTurn { await $0.listen(pages) }
    guard let port else {
      throw RPCError(
        .temporarilyUnavailable, failure ?? "the page cannot be served now",
        hint: "See the log of grantd. `grantctl status` shows the same without a browser.", retryAfter: 5)
    }
    return try pages.open(for: user, by: opener, port: port)
  }

  private func inTurn(_ work: @escaping @Sendable (isolated PageServing) async -> String?) async -> String? {
    await changes.add { await work(self) }.value
  }

  private func listen(_ pages: UserPages) async -> String? {
    guard !isClosed else { return "the broker is stopping" }
    guard server == nil else { return nil }
    let new = HTTPServer(
      address: .loopback(host: "127.0.0.1", port: 0), limits: .pages, group: MultiThreadedEventLoopGroup.singleton,
      logger: logger, application: PageApplication(pages))
    do throws(HTTPServerError) {
      let place = try await new.start()
      guard let number = place.split(separator: ":").last.flatMap({ Int($0) }) else { return "no port" }
      (server, port) = (new, number)
      logger.info("the web page is served", metadata: ["address": "http://\(place)"])
      watch = Task {
        while !Task.isCancelled {
          await system.sleep(Self.pause)
          if await closeUnused() { return }
        }
      }
      return nil
    } catch {
      await new.stop()
      logger.error("the web page cannot be served: \(error.message)")
      return "the page cannot be served: \(error.message)"
    }
  }

  /// True: it is closed.
  private func closeUnused() async -> Bool {
    guard pages?.isInUse != true else { return false }
    _ = await inTurn { serving in
      guard serving.pages?.isInUse != true else { return nil }
      await serving.shut(within: .seconds(1))
      serving.logger.info("the web page is closed: no page is open")
      return nil
    }
    guard server == nil else { return false }
    await FreedMemory.afterPage()
    return true
  }

  private func shut(within limit: Duration) async {
    let old = server
    (server, port) = (nil, nil)
    pages?.close()
    await old?.stop(within: limit)
  }

  /// - Parameter limit: how long requests under way may take.
  func close(within limit: Duration) async {
    isClosed = true
    watch?.cancel()
    _ = await inTurn { serving in
      await serving.shut(within: limit)
      return nil
    }
  }
}
