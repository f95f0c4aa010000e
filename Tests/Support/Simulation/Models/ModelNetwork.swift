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
    let answer: (Outcome) -> Void
    var isOver = false
    /// Its time is over, and its answer is read on.
    var isLate = false
    /// Until the provider reads it.
    var arrival: (timer: VirtualTime.TimerID, action: () -> Void)?

    init(
      _ provider: ModelProvider, _ request: HTTPRequest, run: Int, at now: Moment, answer: @escaping (Outcome) -> Void
    ) {
      self.provider = provider
      self.request = request
      self.run = run
      sentAt = now
      form = request.purpose == .token || request.purpose == .revocation ? request.form : [:]
      self.answer = answer
    }

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
    let exchange = Exchange(provider, request, run: run, at: world.now, answer: answer)
    underWay.append(exchange)
    if exchange.isRefresh { world.refreshIsSent(exchange) }
    if exchange.isRefresh || request.purpose == .discovery {
      provider.watch.sent(at: world.now)
      world.checkProbes(provider)
    }
    var fault = fault(provider)
    // A 200 says that the token is revoked, whatever comes with it (RFC 7009 §2.2), and a 4xx that it cannot be.
    if request.purpose == .revocation, let drawn = fault, !Fault.outages.contains(drawn) { fault = .unavailable }
    world.counts.add("requests")
    if let fault {
      world.counts.add("fault \(fault.rawValue)")
      provider.watch.lastTrouble = world.now
    }
    world.trace.add(world.now, "\(provider.name) ← \(describe(exchange))\(fault.map { " ⚡ \($0.rawValue)" } ?? "")")
    let there = random.between(provider.latency.lowerBound, provider.latency.upperBound)
    let back = random.between(provider.latency.lowerBound, provider.latency.upperBound)
    let limit = request.purpose == .revocation ? Self.revocationDeadline : Self.deadline
    let timedOut = TransportError(.timedOut, "no answer in time")
    if let late {
      world.time.at(world.now + limit) {
        guard !exchange.isOver, exchange.run == self.world.run else { return }
        exchange.isLate = true
        self.world.counts.add("answers overdue")
        exchange.provider.watch.underWay -= 1
        exchange.provider.watch.lastTrouble = self.world.now
        late.isOverdue(timedOut)
      }
    }
    world.time.at(world.now + (late.map { $0.limit.wholeSeconds * second } ?? limit)) {
      self.end(exchange, .failure(timedOut))
    }
    if fault == .connectionRefused {
      world.time.after(there) { self.end(exchange, .failure(TransportError(.notSent, "connection refused"))) }
      return
    }
    let action = { self.arrive(exchange, fault, back: back) }
    exchange.arrival = (world.time.after(there, action), action)
  }

  private func fault(_ provider: ModelProvider) -> Fault? {
    let now = world.now
    for window in provider.faults where window.from <= now && now < window.until {
      if random.chance(window.share) { return random.pick(window.kinds) }
    }
    return nil
  }

  /// The provider reads it.
  private func arrive(_ exchange: Exchange, _ fault: Fault?, back: Moment) {
    exchange.arrival = nil
    let provider = exchange.provider
    let acts = fault?.acts ?? true
    let isAnswered = fault == nil || fault == .slow
    let response =
      acts ? provider.act(exchange, at: world.now, isHeard: isAnswered && exchange.run == world.run) : nil
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
      if let token = exchange.refreshToken, let session = exchange.provider.session(token) {
        world.answerIsLost(session)
      }
      return
    }
    guard var response else { return }
    if let offset = exchange.provider.dateOffset {
      response.headers.append(.init("Date", httpDate(world.trueTime.seconds + offset / 1000)))
    }
    if exchange.isLate { world.counts.add("answers overdue that came") }
    end(exchange, .success(response))
  }

  private func end(_ exchange: Exchange, _ outcome: Outcome) {
    guard !exchange.isOver else { return }
    exchange.isOver = true
    underWay.removeAll { $0 === exchange }
    // A crash has ended it already for who sent it.
    guard exchange.run == world.run else { return }
    world.trace.add(world.now, "\(exchange.provider.name) → \(describe(outcome))")
    if case .failure(let error) = outcome, error.kind == .timedOut, exchange.isRefresh {
      exchange.provider.watch.lastTrouble = world.now
    }
    if exchange.isRefresh { world.refreshIsOver(exchange) }
    exchange.answer(outcome)
  }

  /// The process that sent them is gone: nobody hears their answers. What was sent arrives at once or never.
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

/// What the broker sends by.
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
