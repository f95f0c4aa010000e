import Broker
import Glibc
import NIOCore
import Platform
import Synchronization

/// Looks up the addresses of names, each name separately: getaddrinfo(3) can hang for minutes, and then delays only
/// requests for the same name, for a limited time (decision 41).
///
/// Each lookup has a thread. Requests for a name that is being looked up wait for the same lookup, so that a name has one
/// thread even if it hangs.
final class NameLookups: Sendable {
  /// Names that are looked up at once.
  static let most = 32
  /// Bytes of a thread's stack: the modules of nsswitch.conf(5) run on it.
  private static let stackSize = 512 << 10
  /// How long a caller waits.
  static let timeout = Duration.seconds(10)
  /// How long addresses are kept, and that there are none: who tries again in a second must not wait for that again.
  static let kept = Duration.seconds(30)
  static let failureKept = Duration.seconds(2)
  /// Names that are kept.
  static let mostKept = 512
  /// Addresses of a name that are tried.
  static let mostAddresses = 4

  /// Runs the work on a separate thread, or returns the error of pthread_create(3).
  typealias Spawner = @Sendable (_ work: @escaping @Sendable () -> Void) -> CInt
  /// Blocks until the name's addresses are known: numeric, the best first.
  typealias Resolver = @Sendable (String) -> Answer
  typealias Answer = Result<[String], Failure>

  struct Failure: Error, Equatable {
    /// For people: `the name cannot be resolved (Name or service not known)`.
    var message: String
  }

  private struct Waiter {
    var host: String
    var continuation: CheckedContinuation<Answer, Never>
  }

  private struct State {
    /// Who waits, by number, and for which names there is a thread.
    var waiters: [UInt64: Waiter] = [:]
    var asking: Set<String> = []
    var known: [String: (answer: Answer, until: NIODeadline)] = [:]
    /// The address that last worked, tried first while the name still has it.
    var preferred: [String: String] = [:]
    var number: UInt64 = 0
  }

  private let state = Mutex(State())
  private let resolve: Resolver
  private let hosts: Resolver
  private let spawn: Spawner
  private let most: Int
  private let timeout: Duration

  /// - Parameters:
  ///   - hosts: answers without waiting, if no thread is free.
  ///   - spawn: starts the thread of a lookup.
  init(
    most: Int = NameLookups.most, timeout: Duration = NameLookups.timeout,
    hosts: @escaping Resolver = { HostsFile.addresses(of: $0) },
    spawn: @escaping Spawner = { OwnThread.start("lookup", stack: NameLookups.stackSize, $0) },
    resolve: @escaping Resolver = { SystemResolver.addresses(of: $0) }
  ) {
    self.most = most
    self.timeout = timeout
    self.hosts = hosts
    self.spawn = spawn
    self.resolve = resolve
  }

  /// The addresses in the order of attempts.
  func addresses(of host: String) async throws(TransportError) -> [String] {
    let known = state.withLock { state in
      state.known[host].flatMap { $0.until > .now() ? $0.answer : nil }
    }
    let answer: Answer = if let known { known } else { await lookUp(host) }
    switch answer {
    case .success(let addresses):
      let preferred = state.withLock { $0.preferred[host] }
      let ordered = addresses.filter { $0 == preferred } + addresses.filter { $0 != preferred }
      return Array(ordered.prefix(Self.mostAddresses))
    case .failure(let failure):
      throw TransportError(.notSent, "no connection to \(host): \(failure.message)", cause: .nameLookup)
    }
  }

  /// A connection to the address could be made.
  func works(_ address: String, of host: String) { state.withLock { $0.preferred[host] = address } }

  /// How many lookups are under way.
  var count: Int { state.withLock { $0.asking.count } }

  // MARK: One lookup

  private func lookUp(_ host: String) async -> Answer {
    let number = state.withLock { state in
      state.number += 1
      return state.number
    }
    let timer = Task { [timeout] in
      guard (try? await RunningTime().sleep(for: timeout)) != nil else { return }
      end(number, .failure(Failure(message: "the name server did not answer in \(timeout.components.seconds) s")))
    }
    defer { timer.cancel() }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { join(host, number, $0) }
    } onCancel: {
      end(number, .failure(Failure(message: "the name is no longer needed")))
    }
  }

  private func join(_ host: String, _ number: UInt64, _ continuation: CheckedContinuation<Answer, Never>) {
    enum Turn { case begin, wait, full }
    let turn = state.withLock { state -> Turn in
      let isNew = !state.asking.contains(host)
      guard !isNew || state.asking.count < most else { return .full }
      state.asking.insert(host)
      state.waiters[number] = Waiter(host: host, continuation: continuation)
      return isNew ? .begin : .wait
    }
    switch turn {
    case .begin: begin(host)
    case .wait: break
    case .full:
      let message = "\(most) other names are being looked up: does the name server answer?"
      continuation.resume(returning: hosts(host).mapError { _ in Failure(message: message) })
    }
    // If that was before its wait, no other code ends it.
    if Task.isCancelled { end(number, .failure(Failure(message: "the name is no longer needed"))) }
  }

  private func begin(_ host: String) {
    let code = spawn { [self] in
      let answer = resolve(host)
      ended(host, answer) { keep(answer, of: host, &$0) }
    }
    guard code != 0 else { return }
    let failure = Failure(message: "no thread for its lookup can be started (\(String(cString: strerror(code))))")
    ended(host, hosts(host).mapError { _ in failure }) { _ in }
  }

  private func ended(_ host: String, _ answer: Answer, _ note: (inout State) -> Void) {
    let waiting = state.withLock { state in
      note(&state)
      state.asking.remove(host)
      return state.waiters.filter { $0.value.host == host }.map(\.key)
    }
    for number in waiting { end(number, answer) }
  }

  private func keep(_ answer: Answer, of host: String, _ state: inout State) {
    let now = NIODeadline.now()
    if state.known.count >= Self.mostKept {
      state.known = state.known.filter { $0.value.until > now }
      if state.known.count >= Self.mostKept { state.known = [:] }
      state.preferred = state.preferred.filter { state.known[$0.key] != nil }
    }
    let isFailure = if case .failure = answer { true } else { false }
    state.known[host] = (answer, now + TimeAmount(isFailure ? Self.failureKept : Self.kept))
  }

  private func end(_ number: UInt64, _ answer: Answer) {
    state.withLock { $0.waiters.removeValue(forKey: number) }?.continuation.resume(returning: answer)
  }
}
