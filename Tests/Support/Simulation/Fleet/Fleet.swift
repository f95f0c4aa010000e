import Broker
import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Scheduling

/// One seed's fleet: 2 to 4 brokers on one store, whose processes stand still, whose clocks differ, and whose
/// notifications come late or never.
final class Fleet: @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  static let provider = ProviderName(rawValue: "example")!
  static let longestStop = 25 * minute
  /// Shorter than the time after which another broker takes over an unanswered request: only the process that sent it
  /// can have its answer.
  static let longestUnanswered = 9 * minute
  static let names = ["work", "home"]

  let fault: FleetFault?
  let time: VirtualTime
  let trace: Trace
  var counts = Counts()
  var violation: Violation?
  var entropy: Randomness
  var network: Randomness
  private var order: Randomness
  private var plan: Randomness
  private(set) var database: FleetDatabase!
  private(set) var provider: FleetProvider!
  private var machines: [FleetMachine] = []
  var issued = 0
  let healsAt: Moment
  private let end: Moment
  /// How often a process is stopped before a step.
  let stopShare: Double
  private let lostShare: Double
  private let unknownShare: Double
  private let wakeShare: Double
  private var isOver = false

  init(seed: UInt64, fault: FleetFault?, isTraced: Bool) {
    self.fault = fault
    plan = Randomness(seed: seed, .plan)
    order = Randomness(seed: seed, .order)
    entropy = Randomness(seed: seed, .entropy)
    network = Randomness(seed: seed, .network)
    time = VirtualTime(Randomness(seed: seed &+ 0x5eed, .order))
    trace = Trace(isKept: isTraced)
    stopShare = plan.pick([0, 0.005, 0.02, 0.06])
    lostShare = plan.pick([0, 0.1, 0.5, 1])
    unknownShare = plan.pick([0, 0.02, 0.1])
    wakeShare = plan.pick([0, 0.5, 1])
    healsAt = plan.between(3 * hour, 7 * hour)
    end = healsAt + 2 * hour
    database = FleetDatabase(self)
    provider = FleetProvider(
      plan.pick([.strict, .strict, .strict, .grace(.seconds(300)), .grace(.seconds(30)), .none]), self)
  }

  var now: Moment { time.now }

  /// By which leases are judged: the database's, the same for all machines.
  func clock(of number: Int) -> Moment {
    guard fault == .takeoverByClock else { return now }
    return now + (machines.first { $0.number == number }?.wallOffset ?? 0)
  }

  /// Another broker has the machine's lease from now on: often its process runs again just then.
  func takenOver(from number: Int) {
    guard network.chance(wakeShare), let machine = machines.first(where: { $0.number == number }) else { return }
    time.after(network.logarithmic(1, 3 * second)) { machine.wake() }
  }

  var configuration: BrokerConfiguration {
    BrokerConfiguration(
      providers: [OAuthProvider(provider.settings)],
      policy: Policy(instance: .user, owner: Client.process.uid, rules: []), refresh: RefreshPolicy(), path: nil)
  }

  func violated(_ invariant: Invariant, _ detail: String) {
    guard violation == nil, !isOver else { return }
    trace.add(now, "✘ \(invariant.rawValue): \(detail)")
    violation = Violation(invariant: invariant, detail: detail, at: now)
  }

  enum CommitFate { case answered, lostBefore, lostAfter }

  func commitFate() -> CommitFate {
    guard now < healsAt, network.chance(unknownShare) else { return .answered }
    return network.chance(0.5) ? .lostBefore : .lostAfter
  }

  /// Tells the other brokers, late or never.
  func report(_ change: ChangesElsewhere, from number: Int) {
    for machine in machines where machine.number != number {
      if now < healsAt, network.chance(lostShare) {
        counts.add("lost notifications")
        continue
      }
      time.after(network.logarithmic(1, 10 * second)) { machine.changes.yield(change) }
    }
  }

  // MARK: Its life

  func live() {
    for name in Self.names { prepare(name) }
    for number in 1...Int(plan.between(2, 4)) {
      machines.append(FleetMachine(number, self, wallOffset: plan.pick([0, 0, plan.between(-4 * minute, 4 * minute)])))
    }
    for machine in machines { machine.start() }
    settle()
    planSteps()
    time.at(end) { self.conclude() }
    while violation == nil, !isOver, let action = time.next() {
      action()
      settle()
    }
    isOver = true
    for machine in machines { machine.end() }
    settle()
    time.removeAll()
  }

  private func settle() {
    if case .endless = Scheduler.shared.drain(&order) { violated(.progress, "no time passes") }
  }

  private func prepare(_ name: String) {
    let number = provider.signIn(name)
    let account = AccountName(rawValue: name)!
    let token = SavedToken(
      account: account, accessToken: Secret("a\(number)-0"), type: "Bearer", scopes: ["read"], generation: 1,
      issuedAt: World.epoch, expiresAt: World.epoch + .seconds(600))
    let grant = SavedGrant(
      account: account, provider: Self.provider, identity: nil, requestedScopes: ["read"], grantedScopes: ["read"],
      refreshToken: Secret("\(number)-1"), generation: 1, standing: .good, createdAt: World.epoch,
      loggedInAt: World.epoch)
    try? database.commit([.putGrant(grant), .putToken(token)], [], as: .random(), by: 0)
  }

  private func planSteps() {
    for _ in 0..<Int(plan.between(40, 160)) {
      let (at, machine) = (plan.between(0, healsAt), plan.pick(machines))
      let name = plan.pick(Self.names)
      switch plan.below(12) {
      case 0...4: time.at(at) { machine.call(TokenGet.self, .init(account: name, timeout: 60)) { _ in } }
      case 5, 6: time.at(at) { machine.call(AccountRefresh.self, .init(account: name, timeout: 60)) { _ in } }
      case 7, 8:
        let length = plan.logarithmic(second, Self.longestStop)
        time.at(at) { machine.stop(length) }
      case 9, 10:
        let other = plan.pick(machines)
        time.at(at) { self.signIn(name, by: machine, callbackAt: other) }
      default: time.at(at) { self.signInAgain(name, by: machine) }
      }
    }
  }

  private func signIn(_ name: String, by machine: FleetMachine, callbackAt other: FleetMachine) {
    let start = LoginStart.Params(provider: Self.provider.rawValue, account: name, destinations: ["manual"])
    machine.call(LoginStart.self, start) { result in
      guard case .success(let login) = result, let url = login.destinations.first?.url,
        let state = URLComponents(string: url)?.queryItems?.first(where: { $0.name == "state" })?.value,
        let redirect = login.destinations.first?.redirect_uri, let broker = other.broker
      else { return }
      self.counts.add("callbacks")
      self.time.after(5 * second) {
        Task {
          await other.running(after: 0)
          _ = await broker.handleCallback(
            url: "\(redirect)?code=\(name)&state=\(state)", from: .user(Client.process.uid))
        }
      }
    }
  }

  private func signInAgain(_ name: String, by machine: FleetMachine) {
    machine.call(AccountLogout.self, .init(account: name, revoke: false)) { [self] result in
      guard case .success = result else { return }
      counts.add("logouts")
      signIn(name, by: machine, callbackAt: machine)
    }
  }

  // MARK: Its end

  /// All is well for two hours: each broker returns a token of the newest login.
  private func conclude() {
    for name in Self.names {
      let account = AccountName(rawValue: name)!
      guard let grant = database.contents.grants[account], !database.isRefreshing(account) else { continue }
      let saved = grant.refreshToken
      if !provider.isNewest(saved) { violated(.loss, "the store has \(saved?.exposed ?? "no token") of \(name)") }
    }
    var left = machines.count * Self.names.count
    for machine in machines {
      for name in Self.names {
        machine.call(TokenGet.self, .init(account: name, timeout: 60)) { [self] result in
          left -= 1
          switch result {
          case .success(let token) where provider.session(token.access_token.map { Secret($0) }) != session(of: name):
            violated(.revoked, "m\(machine.number) returns a token of an earlier login of \(name)")
          case .failure(let error) where error.reason != .unknownAccount:
            violated(.progress, "m\(machine.number) returns no token of \(name): \(error.message)")
          case .success, .failure: break
          }
          if left == 0 { isOver = true }
        }
      }
    }
    time.after(5 * minute) { self.isOver = true }
  }

  private func session(of name: String) -> Int? {
    provider.session(database.contents.grants[AccountName(rawValue: name)!]?.refreshToken)
  }
}
