public import Broker
public import BrokerAPI
public import HTTPServer
import OAuth
public import Principals
import Synchronization

/// The web page of each user: an adapter of the socket's methods. Every view calls them in the name of the user that the
/// kernel reports for the browser's connection, and decides nothing itself (decision 69).
public final class UserPages: Sendable {
  private struct State {
    var visits = Visits()
    var port: Int?
    var live: [ObjectIdentifier: LiveEvents] = [:]
  }

  private let state = Mutex(State())
  let broker: any LoopbackBroker
  let system: SystemDependencies

  /// Nil: the page writes no files.
  let commands: (any OwnCommands)?

  public init(_ broker: any LoopbackBroker, _ system: SystemDependencies, commands: (any OwnCommands)? = nil) {
    self.broker = broker
    self.commands = commands
    self.system = system
  }

  /// A link for the user, at a port where the pages are served.
  ///
  /// - Parameter opener: the connection of the process that requested it.
  public func open(for user: UInt32, by opener: any Session, port: Int) throws(RPCError) -> UIOpen.Result {
    let link = token()
    let sharesFiles = commands.map { $0.fileView == opener.fileView } ?? false
    let isAdded = state.withLock { state in
      state.port = port
      return state.visits.add(
        link: link, for: user, by: opener.principal.pid, of: opener.principal.holder, sharesFiles: sharesFiles,
        at: system.uptime())
    }
    guard isAdded else {
      throw RPCError(
        .overloaded, "too many links of the page are unused", hint: "Open one of them, or try again in two minutes.",
        retryAfter: 120)
    }
    return UIOpen.Result(
      url: "http://127.0.0.1:\(port)\(PagePath.open)\(link)", port: port,
      expires_at: system.now().seconds + Visits.linkLife.components.seconds)
  }

  /// Whether a link may still be used, or a page is open.
  public var isInUse: Bool { state.withLock { $0.visits.isInUse(at: system.uptime()) } }

  /// Ends all sessions, and the streams of events.
  public func close() {
    let live = state.withLock { state in
      defer { state = State() }
      return Array(state.live.values)
    }
    for events in live { events.end() }
  }

  // MARK: Sessions

  var port: Int? { state.withLock { $0.port } }

  func token() -> String { base64URL(system.randomBytes(24)) }

  /// Names a text while this process runs: a form brings back which one its user saw.
  func mark(of text: String) -> String { String(UInt(bitPattern: text.hashValue), radix: 36) }

  func use(link: String, by browser: Caller) -> Visits.Opening {
    let (id, formToken) = (token(), token())
    return state.withLock {
      $0.visits.open(link: link, by: browser.uid, of: browser.holder, as: id, formToken: formToken, at: system.uptime())
    }
  }

  func visit(_ id: String, of user: UInt32) -> Visits.Visit? {
    state.withLock { $0.visits.visit(id, of: user, at: system.uptime()) }
  }

  func isOfOther(_ id: String, than user: UInt32) -> Bool { state.withLock { $0.visits.isOfOther(id, than: user) } }

  func end(_ visit: Visits.Visit) { state.withLock { $0.visits.end(visit.id) } }

  func remember(_ login: StartedLogin, in visit: Visits.Visit) {
    state.withLock { $0.visits.remember(login, in: visit.id) }
  }

  func remember(_ run: ProviderRun, in visit: Visits.Visit) -> Bool {
    state.withLock { $0.visits.remember(run, in: visit.id) }
  }

  /// The open pages of the session load their view again.
  func changed(_ visit: Visits.Visit) {
    let live = state.withLock { state in state.live.values.filter { $0.visit == visit.id } }
    for events in live { events.poke() }
  }

  func began(_ events: LiveEvents) {
    let now = system.uptime()
    state.withLock { state in
      state.live[ObjectIdentifier(events)] = events
      state.visits.liveChanged(events.visit, by: 1, at: now)
    }
  }

  func ended(_ events: LiveEvents) {
    let now = system.uptime()
    state.withLock { state in
      guard state.live.removeValue(forKey: ObjectIdentifier(events)) != nil else { return }
      state.visits.liveChanged(events.visit, by: -1, at: now)
    }
  }
}

/// The pages as a listener serves them: the kernel reports the user of each connection.
public struct PageApplication: CallerApplication {
  private let pages: UserPages

  public init(_ pages: UserPages) { self.pages = pages }

  public var identifiesCallers: Bool { true }
  public var checks: HTTPHeadChecks { .everybody }

  public func callerClass(of caller: Caller) -> CallerClass { pages.broker.callerClass(of: .peer(caller)) }

  public func conversation(with caller: Caller?) -> any HTTPConversation { PageConversation(pages, caller) }
}

extension HTTPServer.Limits {
  /// A few browsers of a few users.
  public static var pages: Self {
    var limits = Self()
    limits.connections = 256
    limits.connectionsPerHolder = 64
    limits.requestsPerSecond = 200
    limits.requestLine = 4096
    limits.stop = .seconds(1)
    // An open page costs next to nothing.
    limits.timeCheck = .seconds(15)
    return limits
  }
}

enum PagePath {
  static let open = "/open/"
  static let style = "/style.css"
  static let script = "/script.js"
  static let live = "/live"
}
