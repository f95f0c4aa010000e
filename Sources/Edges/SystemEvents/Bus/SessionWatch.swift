import CSystemd
import Glibc
import Platform
import Synchronization

/// The signals of logind (org.freedesktop.login1(5)) before a suspend and when a session of this user is locked. One
/// thread that sleeps.
public final class SessionWatch: Sendable {
  public enum Signal: Sendable, Equatable {
    /// The suspend waits until ``SessionWatch/proceed()``, or until this process has ended, for logind's
    /// `InhibitDelayMaxSec=`.
    case suspends
    case screenLocked
  }

  private static let service = "org.freedesktop.login1"
  private static let manager = "org.freedesktop.login1.Manager"
  private static let session = "org.freedesktop.login1.Session"
  private static let properties = "org.freedesktop.DBus.Properties"
  private static let folder = "/org/freedesktop/login1"
  private static let stackSize = 256 << 10
  /// Before the next attempt to reach the bus, in milliseconds.
  private static let pause: Int32 = 30_000

  private let user: UInt32
  private let delays: Bool
  private let tell: @Sendable (Signal) -> Void
  /// Held while a suspend has to wait for this process.
  private let inhibitor = Mutex<Int32>(-1)
  /// Closing it ends the thread.
  private let end: Mutex<Int32>

  /// - Parameters:
  ///   - user: whose sessions.
  ///   - delays: whether a suspend waits.
  public init(of user: UInt32, delays: Bool, _ tell: @escaping @Sendable (Signal) -> Void) {
    self.user = user
    self.delays = delays
    self.tell = tell
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else {
      end = Mutex(-1)
      return
    }
    for descriptor in ends { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    end = Mutex(ends[1])
    let code = OwnThread.start("session-watch", stack: Self.stackSize) { [self, reading = ends[0]] in
      run(until: reading)
      Glibc.close(reading)
    }
    if code != 0 { Glibc.close(ends[0]) }
  }

  /// Ends the thread. Once is enough.
  public func close() {
    end.withLock { end in
      if end >= 0 { _ = Glibc.close(end) }
      end = -1
    }
    proceed()
  }

  /// The suspend need not wait for this process any longer.
  public func proceed() {
    inhibitor.withLock { descriptor in
      if descriptor >= 0 { _ = Glibc.close(descriptor) }
      descriptor = -1
    }
  }

  private func run(until end: Int32) {
    while true {
      if let bus = MessageBus.system(), subscribe(bus) {
        if delays { inhibit(bus) }
        guard follow(bus, until: end) else { return }
      }
      var entry = pollfd(fd: end, events: Int16(POLLIN), revents: 0)
      if poll(&entry, 1, Self.pause) > 0 { return }
    }
  }

  private func subscribe(_ bus: MessageBus) -> Bool {
    let rules = [
      "interface='\(Self.manager)',member='PrepareForSleep',path='\(Self.folder)'",
      "interface='\(Self.session)',member='Lock',path_namespace='\(Self.folder)/session'",
      // Some screen lockers set LockedHint, and lock without the signal.
      "interface='\(Self.properties)',member='PropertiesChanged',arg0='\(Self.session)',"
        + "path_namespace='\(Self.folder)/session'",
    ]
    return rules.allSatisfy { bus.match("type='signal',sender='\(Self.service)',\($0)") }
  }

  /// - Returns: false at the end of this watch; true if the bus was lost.
  private func follow(_ bus: MessageBus, until end: Int32) -> Bool {
    while true {
      do throws(MessageBus.Lost) {
        while let message = try bus.next() { handle(message, bus) }
      } catch { return true }
      var entries = [
        pollfd(fd: end, events: Int16(POLLIN), revents: 0),
        pollfd(fd: bus.descriptor, events: bus.events, revents: 0),
      ]
      guard poll(&entries, nfds_t(entries.count), -1) >= 0 || errno == EINTR else { return false }
      if entries[0].revents != 0 { return false }
    }
  }

  /// Any process may send a signal to this connection, without a subscription: only logind's count.
  private func handle(_ message: Message, _ bus: MessageBus) {
    if message.isSignal(Self.manager, "PrepareForSleep") {
      guard isOfService(message, bus), let begins = message.flag() else { return }
      if begins { tell(.suspends) } else if delays { inhibit(bus) }
    } else if message.isSignal(Self.session, "Lock") || becomesLocked(message), let path = message.path,
      isOfService(message, bus), owner(of: path, bus) == user
    {
      tell(.screenLocked)
    }
  }

  /// The bus sets the sender of a message, and lets only root be logind.
  private func isOfService(_ message: Message, _ bus: MessageBus) -> Bool {
    message.sender.map { $0 == bus.owner(of: Self.service) } ?? false
  }

  /// Whether the hint of a session has become true.
  private func becomesLocked(_ message: Message) -> Bool {
    message.isSignal(Self.properties, "PropertiesChanged") && message.text() == Self.session
      && message.changedFlag("LockedHint") == true
  }

  private func owner(of session: String, _ bus: MessageBus) -> UInt32? {
    let reply = bus.call(Self.service, session, Self.properties, "Get") {
      $0.append(Self.session) && $0.append("User")
    }
    guard let reply, reply.enterVariant("(uo)"), reply.enterStructure("uo") else { return nil }
    return reply.unsigned()
  }

  private func inhibit(_ bus: MessageBus) {
    let reply = bus.call(Self.service, Self.folder, Self.manager, "Inhibit") {
      $0.append("sleep") && $0.append("grantd") && $0.append("locks the accounts") && $0.append("delay")
    }
    guard let descriptor = reply?.descriptor() else { return }
    inhibitor.withLock { held in
      if held >= 0 { _ = Glibc.close(held) }
      held = descriptor
    }
  }
}
