import Broker
import BrokerAPI
import GrantdConfiguration
import Logging
import Synchronization
import SystemEvents
import TestSupport
import Testing

@testable import grantd

/// The lock of a user's broker at signals of the desktop, and the notices.
@Suite(.timeLimit(.minutes(5))) struct DesktopTests {
  private let sessions = Sessions()
  private let notices = Notices()
  private let lines = LoggedLines()

  private func desktop() -> Desktop {
    Desktop(logger: lines.logger(.debug), watch: sessions.watch, show: notices.show, uptime: { .zero })
  }

  private func settings(onSuspend: Bool = false, onScreenLock: Bool = false, notifies: Bool = true) -> Settings {
    var settings = Settings()
    settings.lock.onSuspend = onSuspend
    settings.lock.onScreenLock = onScreenLock
    settings.notify.isEnabled = notifies
    return settings
  }

  private func broker(_ lock: TestLock? = nil) async throws -> Broker {
    var edges = Broker.Edges()
    edges.keyLock = lock
    return try await Broker.started(edges: edges, logger: lines.logger())
  }

  // MARK: Lock

  @Test(
    "sessions are watched only if a signal locks, and a suspend waits only if it locks",
    arguments: [(false, false, []), (true, false, [true]), (false, true, [false]), (true, true, [true])]
      as [(Bool, Bool, [Bool])])
  func watched(_ onSuspend: Bool, _ onScreenLock: Bool, _ delays: [Bool]) async throws {
    let desktop = desktop()
    desktop.begin(try await broker(), settings(onSuspend: onSuspend, onScreenLock: onScreenLock))
    #expect(sessions.all.map(\.delays) == delays)
  }

  @Test("a reload replaces the watch only if [lock] has changed; before the start and after the end there is none")
  func replaced() async throws {
    let desktop = desktop()
    desktop.configure(settings(onSuspend: true))
    #expect(sessions.all.isEmpty)
    desktop.begin(try await broker(), settings(onSuspend: true))
    desktop.configure(settings(onSuspend: true, notifies: false))
    #expect(sessions.all.map(\.isClosed) == [false])
    desktop.configure(settings(onScreenLock: true))
    #expect(sessions.all.map(\.isClosed) == [true, false])
    desktop.configure(settings())
    #expect(sessions.all.map(\.isClosed) == [true, true])
    desktop.configure(settings(onSuspend: true))
    desktop.close()
    #expect(sessions.all.map(\.isClosed) == [true, true, true])
    desktop.configure(settings(onScreenLock: true))
    #expect(sessions.all.count == 3)
  }

  @Test(
    "a signal locks if its setting is on",
    arguments: [
      (.suspends, true, false, "the machine is about to suspend"), (.suspends, false, true, nil),
      (.screenLocked, false, true, "the screen is locked"), (.screenLocked, true, false, nil),
    ] as [(SessionWatch.Signal, Bool, Bool, String?)])
  func causes(_ signal: SessionWatch.Signal, _ onSuspend: Bool, _ onScreenLock: Bool, _ cause: String?) {
    #expect(Desktop.cause(signal, settings(onSuspend: onSuspend, onScreenLock: onScreenLock).lock) == cause)
  }

  @Test("a signal puts the key under the previous passphrase, then ends the broker")
  func locks() async throws {
    let lock = TestLock()
    let desktop = desktop()
    desktop.begin(try await broker(lock), settings(onScreenLock: true))
    try #require(sessions.all.first).tell(.screenLocked)
    var steps: [String] = []
    for await step in lock.steps {
      steps.append(step)
      if step == "lock" { break }
    }
    #expect(steps == ["prepare without a passphrase", "lock"])
    #expect(lines.all.contains { $0.text == "locking: the screen is locked" })
    desktop.close()
  }

  @Test("a suspend does not wait for a lock that fails, which is logged")
  func fails() async throws {
    let lock = TestLock(failure: RPCError(.locked, "there is no passphrase", hint: "Choose one."))
    let desktop = desktop()
    desktop.begin(try await broker(lock), settings(onSuspend: true))
    let watch = try #require(sessions.all.first)
    watch.tell(.suspends)
    for await _ in watch.proceeds { break }
    let errors = lines.all.filter { $0.level == .error }
    #expect(errors.map(\.whole) == ["not locked: there is no passphrase hint=Choose one."])
    #expect(!watch.isClosed)
    desktop.close()
  }

  // MARK: Notices

  private static let login = Event(type: .loginRequired, at: 0, account: "work", provider: "example")

  @Test(
    "events that need the user are shown with the command to enter, and no others",
    arguments: [
      (login, "Sign in again: work", "grantctl login example work"),
      (
        Event(type: .scopesRequired, at: 0, account: "work", provider: "example", message: "mail needs more"),
        "Sign in again: work", "mail needs more: grantctl login example work"
      ),
      (
        Event(type: .scopesRequired, at: 0, account: "work"), "Sign in again: work",
        "a server requires more access: grantctl login PROVIDER work"
      ),
      (Event(type: .tokenRefreshed, at: 0, account: "work"), nil, nil),
      (Event(type: .configurationReloaded, at: 0), nil, nil),
    ] as [(Event, String?, String?)])
  func shown(_ event: Event, _ title: String?, _ body: String?) async throws {
    let desktop = desktop()
    desktop.begin(try await broker(), settings())
    desktop.handle(event)
    #expect(notices.all.map(\.title) == [title].compactMap(\.self))
    #expect(notices.all.map(\.body) == [body].compactMap(\.self))
  }

  @Test("notices are shown from the start to the end, if [notify] is on")
  func enabled() async throws {
    let desktop = desktop()
    func isShown(_ account: String) -> Bool {
      let before = notices.all.count
      desktop.handle(Event(type: .loginRequired, at: 0, account: account, provider: "example"))
      return notices.all.count > before
    }
    #expect(!isShown("before"))
    desktop.begin(try await broker(), settings())
    #expect(isShown("a"))
    desktop.configure(settings(notifies: false))
    #expect(!isShown("b"))
    desktop.configure(settings())
    #expect(isShown("c") && !isShown("c"))
    desktop.close()
    #expect(!isShown("d"))
  }

  @Test("a notice that no desktop takes is a debug message", arguments: [true, false])
  func untaken(_ isTaken: Bool) async throws {
    let desktop = desktop()
    desktop.begin(try await broker(), settings())
    desktop.handle(Self.login)
    try #require(notices.all.first).shown(isTaken)
    let messages = lines.all.filter { $0.text == "no desktop shows notices" }
    #expect(messages.map(\.level) == (isTaken ? [] : [.debug]))
  }

  @Test("an account has one notice of a cause a minute, and a user ten in ten minutes")
  func budget() {
    var budget = NoticeBudget()
    func isShown(_ name: String, at seconds: Int) -> Bool { budget.acquire(name, at: .seconds(seconds)) }
    #expect(isShown("a", at: 0))
    #expect(!isShown("a", at: 59))
    #expect(isShown("b", at: 59))
    #expect(isShown("a", at: 60))
    for number in 4...NoticeBudget.most { #expect(isShown("\(number)", at: 100)) }
    #expect(!isShown("c", at: 599))
    // The first one no longer counts.
    #expect(isShown("c", at: 600))
    #expect(!isShown("d", at: 600))
  }
}

/// The watches that a desktop opened.
private final class Sessions: Sendable {
  final class Watch: SessionSignals {
    let delays: Bool
    let tell: @Sendable (SessionWatch.Signal) -> Void
    let proceeds: AsyncStream<Void>
    private let proceeded: AsyncStream<Void>.Continuation
    private let closed = Mutex(false)

    var isClosed: Bool { closed.withLock { $0 } }

    init(_ delays: Bool, _ tell: @escaping @Sendable (SessionWatch.Signal) -> Void) {
      self.delays = delays
      self.tell = tell
      let made = AsyncStream.makeStream(of: Void.self)
      proceeds = made.stream
      proceeded = made.continuation
    }

    func proceed() { proceeded.yield() }
    func close() { closed.withLock { $0 = true } }
  }

  private let opened = Mutex<[Watch]>([])
  var all: [Watch] { opened.withLock { $0 } }

  var watch: Desktop.Watch {
    { [self] delays, tell in
      let watch = Watch(delays, tell)
      opened.withLock { $0.append(watch) }
      return watch
    }
  }
}

/// The notices that a desktop got.
private final class Notices: Sendable {
  struct Notice: Sendable {
    var title: String
    var body: String
    var shown: @Sendable (Bool) -> Void
  }

  private let shown = Mutex<[Notice]>([])
  var all: [Notice] { shown.withLock { $0 } }

  var show: Desktop.Show {
    { [self] title, body, isShown in
      shown.withLock { $0.append(Notice(title: title, body: body, shown: isShown)) }
    }
  }
}

/// A key that cannot be read any more, and a process that does not end.
private final class TestLock: KeyLock {
  let steps: AsyncStream<String>
  private let step: AsyncStream<String>.Continuation
  private let failure: RPCError?

  init(failure: RPCError? = nil) {
    self.failure = failure
    let made = AsyncStream.makeStream(of: String.self)
    steps = made.stream
    step = made.continuation
  }

  func prepare(_ passphrase: SecretText?) async throws(RPCError) -> [String] {
    step.yield("prepare \(passphrase == nil ? "without" : "with") a passphrase")
    if let failure { throw failure }
    return []
  }

  func lock() { step.yield("lock") }
}
