import Broker
import Foundation
import OAuth

/// The way to the providers, with everything that can go wrong on it.
final class ModelNetwork {
  /// As the real transport: from the request's first byte to the response's last.
  static let deadline = 30 * second
  static let revocationDeadline = 10 * second

  typealias Outcome = Result<HTTPResponse, TransportError>

  /// A request under way.
  final class Exchange {
    let provider: ModelProvider
    let request: HTTPRequest
    let form: [String: String]
    let run: Int
    let sentAt: Moment
    /// How long the process had been stopped before.
    let stillness: Moment
    let answer: (Outcome) -> Void
    var isOver = false
    /// Its time is over, and its answer is read on.
    var isLate = false
    /// Until the provider reads it.
    var arrival: (timer: VirtualTime.TimerID, action: () -> Void)?

    init(
      _ provider: ModelProvider, _ request: HTTPRequest, in world: World, run: Int, answer: @escaping (Outcome) -> Void
    ) {
      self.provider = provider
      self.request = request
      self.run = run
      sentAt = world.now
      stillness = world.stillness.length(at: world.now)
      form = request.purpose == .token || request.purpose == .revocation ? request.form : [:]
      self.answer = answer
    }

    /// Until the caller is informed that no answer came.
    var limit: Moment { request.purpose == .revocation ? ModelNetwork.revocationDeadline : ModelNetwork.deadline }
    var isRefresh: Bool { form["grant_type"] == "refresh_token" }
    var refreshToken: Token? { form["refresh_token"].flatMap(Token.init) }
  }

  unowned let world: World
  private var random: Randomness
  private var underWay: [Exchange] = []

  init(_ world: World, seed: UInt64) {
    self.world = world
    random = Randomness(seed: seed, .network)
  }

  func send(_ request: HTTPRequest, _ late: LateAnswer?, run: Int, answer: @escaping (Outcome) -> Void) {
    let host = request.url.host ?? ""
    guard let provider = world.providers.first(where: { $0.host == host }) else {
      return answer(.failure(TransportError(.notSent, "no such host")))
    }
    let exchange = Exchange(provider, request, in: world, run: run, answer: answer)
    underWay.append(exchange)
    if exchange.isRefresh {
      world.refreshIsSent(exchange)
      if world.stillness.awaited != nil {
        // Mostly while nothing of it runs, and the answer is on its way.
        let jobs = random.chance(0.7) ? 0 : random.below(20)
        world.freeze(after: random.between(0, provider.latency.upperBound * 2), jobs: jobs)
      }
    }
    if exchange.isRefresh || request.purpose == .discovery {
      provider.watch.sent(at: world.now)
      world.checkProbes(provider)
    }
    var fault = fault(provider)
    // A 200 means that the token is revoked, regardless of its body (RFC 7009 §2.2), and a 4xx that it cannot be.
    if request.purpose == .revocation, let drawn = fault, !Fault.outages.contains(drawn) { fault = .unavailable }
    world.counts.add("requests")
    if let fault {
      world.counts.add("fault \(fault.rawValue)")
      provider.watch.lastTrouble = world.now
      provider.watch.lastFault = world.now
      if fault.asksToWait { provider.watch.lastWait = world.now }
      if exchange.isRefresh, Fault.outages.contains(fault) { provider.watch.outageFailures += 1 }
    }
    world.trace.add(world.now, "\(provider.name) ← \(describe(exchange))\(fault.map { " ⚡ \($0.rawValue)" } ?? "")")
    let there = random.between(provider.latency.lowerBound, provider.latency.upperBound)
    let back = random.between(provider.latency.lowerBound, provider.latency.upperBound)
    let timedOut = TransportError(.timedOut, "no answer in time")
    if let late, world.options.sabotage != .impatient {
      lapse(exchange.limit, of: exchange) {
        exchange.isLate = true
        self.world.counts.add("answers overdue")
        exchange.provider.watch.underWay -= 1
        exchange.provider.watch.lastTrouble = self.world.now
        late.isOverdue(timedOut)
      }
    }
    let last = world.options.sabotage == .impatient ? nil : late.map { $0.limit.wholeSeconds * second }
    lapse(last ?? exchange.limit, of: exchange) { self.end(exchange, .failure(timedOut)) }
    if fault == .connectionRefused {
      world.time.after(there) { self.end(exchange, .failure(TransportError(.notSent, "connection refused"))) }
      return
    }
    let action = { self.arrive(exchange, fault, back: back) }
    exchange.arrival = (world.time.after(there, action), action)
  }

  /// As the real transport: counts the time in which the process runs, and reads received data before it gives up.
  private func lapse(_ limit: Moment, of exchange: Exchange, _ action: @escaping () -> Void) {
    world.time.after(limit - age(exchange)) { [self] in
      guard !exchange.isOver, exchange.run == world.run,
        world.isRunning({ self.lapse(limit, of: exchange, action) })
      else { return }
      guard age(exchange) >= limit else { return lapse(limit, of: exchange, action) }
      action()
    }
  }

  /// How long the process has run since it was sent.
  private func age(_ exchange: Exchange) -> Moment {
    let missed = world.stillness.length(at: world.now) - exchange.stillness
    return world.now - exchange.sentAt - (world.options.sabotage == .frozen ? 0 : missed)
  }

  private func fault(_ provider: ModelProvider) -> Fault? {
    let now = world.now
    let windows = provider.faults.filter { $0.from <= now && now < $0.until }
    // In an outage no other fault happens.
    for window in windows.filter(\.isOutage) + windows {
      if random.chance(window.share) { return random.pick(window.kinds) }
    }
    return nil
  }

  /// The provider reads it.
  private func arrive(_ exchange: Exchange, _ fault: Fault?, back: Moment) {
    exchange.arrival = nil
    let provider = exchange.provider
    if fault == nil, let wait = world.limited(exchange) {
      let answer = json(#"{"error":"slow_down"}"#, status: 429, [.init("Retry-After", "\(wait)")])
      return _ = world.time.after(back) { self.deliver(exchange, answer) }
    }
    let acts = fault?.acts ?? true
    let isAnswered = fault?.isAnswered ?? true
    let isHeard = isAnswered && !exchange.isOver && exchange.run == world.run
    let response = acts ? provider.act(exchange, at: world.now, isHeard: isHeard) : nil
    if acts, !isAnswered { world.counts.add("answers lost after acting") }
    switch fault {
    case .lostBefore, .lostAfter:
      world.time.after(random.logarithmic(1, 20 * second)) {
        self.end(exchange, .failure(TransportError(.lost, "the connection broke")))
      }
    case .silentBefore, .silentAfter: break
    case .slow:
      // Some come after the request's time.
      let wait = random.chance(0.3) ? random.between(31 * second, 4 * minute) : random.between(2 * second, 29 * second)
      world.time.after(wait) { self.deliver(exchange, response) }
    case .odd:
      guard let response else { return }
      let oddity = Oddity(response, &random)
      if oddity.hidesLifetime { provider.hidesLifetime(ofTokenIn: oddity.response) }
      let answer = world.options.sabotage == .picky ? json("{}") : oddity.response
      world.time.after(back) {
        if oddity.isHarmless, !exchange.isOver, exchange.run == self.world.run {
          self.world.harmlessAnswer(answer, to: exchange)
        }
        self.deliver(exchange, answer)
      }
    case .tooLargeAfter:
      world.time.after(back) { self.end(exchange, .failure(TransportError(.tooLarge, "more than a MiB"))) }
    case nil: world.time.after(back) { self.deliver(exchange, response) }
    case .some(let fault):
      let odd = fault.response(&random, good: response, longWaits: world.waitsLong)
      world.time.after(back) { self.deliver(exchange, odd) }
    }
  }

  private func deliver(_ exchange: Exchange, _ response: HTTPResponse?) {
    guard !exchange.isOver else {
      let isReadOn = exchange.provider.isStrict && age(exchange) < 5 * minute
      if world.options.sabotage == nil, !isReadOn, let token = exchange.refreshToken,
        let session = exchange.provider.session(token)
      {
        world.answerIsLost(session)
      }
      return
    }
    guard var response else { return }
    if let offset = exchange.provider.dateOffset {
      response.headers.append(.init("Date", httpDate(world.trueTime.seconds + offset / 1000)))
    }
    if exchange.isLate { world.counts.add("answers overdue that came") }
    if world.stillness.isNow {
      world.counts.add("answers that came while the process was stopped")
      if world.options.sabotage == .frozen, world.resumedAt - exchange.sentAt > exchange.limit { return }
    }
    end(exchange, .success(response))
  }

  private func end(_ exchange: Exchange, _ outcome: Outcome) {
    guard !exchange.isOver else { return }
    exchange.isOver = true
    underWay.removeAll { $0 === exchange }
    // A crash has ended it already for who sent it.
    guard exchange.run == world.run else { return }
    world.trace.add(world.now, "\(exchange.provider.name) → \(describe(outcome))")
    if case .failure(let error) = outcome, error.kind == .timedOut, let token = exchange.refreshToken {
      exchange.provider.watch.lastTrouble = world.now
      // With a strict rotation an answer that is only late is no reason to lose a grant.
      let isReadOn = exchange.provider.isStrict && !exchange.isLate
      if world.options.sabotage == nil, !isReadOn { exchange.provider.session(token).map(world.answerIsLost) }
    }
    if exchange.isRefresh { world.refreshIsOver(exchange) }
    exchange.answer(outcome)
  }

  /// The process that sent them has ended: no process gets their answers. Sent data arrive at once or never.
  func crash() {
    let dead = underWay
    underWay = []
    for exchange in dead {
      exchange.isOver = true
      if let (timer, action) = exchange.arrival {
        world.time.cancel(timer)
        if random.chance(0.5) { world.time.after(random.between(0, 50), action) }
      }
      exchange.answer(.failure(TransportError(.lost, "the process ended")))
    }
  }

  /// The machine slept: connections break.
  func suspend(_ share: Double) {
    for exchange in underWay where random.chance(share) {
      if let token = exchange.refreshToken, let session = exchange.provider.session(token) {
        world.answerIsLost(session)
      }
      exchange.provider.watch.lastTrouble = world.now
      end(exchange, .failure(TransportError(.lost, "the connection broke while the machine slept")))
    }
  }

  private func describe(_ exchange: Exchange) -> String {
    let what = exchange.form["grant_type"] ?? exchange.request.purpose.rawValue
    return "\(what) \(exchange.form["refresh_token"] ?? exchange.form["code"] ?? exchange.form["token"] ?? "")"
  }

  private func describe(_ outcome: Outcome) -> String {
    switch outcome {
    case .success(let response): "\(response.status) \(String(decoding: response.body.prefix(200), as: UTF8.self))"
    case .failure(let error): "\(error.kind.rawValue): \(error.message)"
    }
  }
}

/// The transport of the broker.
final class ModelTransport: Transport, @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  private let network: ModelNetwork
  private let run: Int

  init(_ network: ModelNetwork, run: Int) {
    self.network = network
    self.run = run
  }

  func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    let outcome = await withUnsafeContinuation { (continuation: UnsafeContinuation<ModelNetwork.Outcome, Never>) in
      guard network.world.run == run else {
        return continuation.resume(returning: .failure(TransportError(.notSent, "the process ended")))
      }
      network.send(request, late, run: run) { continuation.resume(returning: $0) }
    }
    return try outcome.get()
  }
}

extension HTTPRequest {
  /// The members of a form; nothing of ours needs escapes but the redirect URI.
  var form: [String: String] {
    var members: [String: String] = [:]
    for pair in String(decoding: body ?? Data(), as: UTF8.self).split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1)
      members[String(parts[0])] = parts.count == 2 ? String(parts[1]) : ""
    }
    return members
  }
}
