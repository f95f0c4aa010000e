import Grants
import OAuth
import Testing

private let told = FailureRecord(message: "no answer", at: start)

/// Seconds since the machine started.
private func up(_ seconds: Double) -> Duration { .milliseconds(Int64(seconds * 1000)) }

extension ProviderGate {
  fileprivate mutating func go(at now: Double, wanted: Bool = false, accounts: Int = 1) -> Ticket? {
    guard case .go(let ticket) = admit(isWanted: wanted, accounts: accounts, at: up(now), policy: steady) else {
      return nil
    }
    return ticket
  }

  /// A request that goes out and has no answer.
  @discardableResult
  fileprivate mutating func fails(at now: Double, retryAfter: Duration? = nil) -> Turn? {
    guard let ticket = go(at: now) else { return nil }
    return failed(ticket, told, retryAfter: retryAfter, at: up(now), policy: steady, jitter: 0)
  }

  /// Five requests in a row had no answer, at second 0.
  fileprivate static func inOutage() -> ProviderGate {
    var gate = ProviderGate()
    for _ in 0..<5 { gate.fails(at: 0) }
    return gate
  }
}

@Suite struct ProviderGateTests {
  @Test("Five requests in a row without an answer make an outage, and an answer between starts the count again")
  func fiveInARow() {
    var gate = ProviderGate()
    for _ in 0..<4 { #expect(gate.fails(at: 0) == .nothing) }
    let ticket = gate.go(at: 0)!
    #expect(gate.answered(ticket, at: up(0), policy: steady) == .nothing)
    for _ in 0..<4 { #expect(gate.fails(at: 1) == .nothing) }
    #expect(gate.circuit.outage == nil)
    #expect(gate.fails(at: 1) == .unreachable)
    #expect(gate.circuit.outage?.failure == told)
  }

  @Test("In an outage one request at a time tries the provider, at 5, 15, 35, 65 and then every 30 seconds")
  func probes() {
    var gate = ProviderGate.inOutage()
    var sent: [Double] = []
    for second in 0...200 {
      guard let ticket = gate.go(at: Double(second), accounts: 1000) else { continue }
      #expect(ticket.isProbe)
      let after = ProviderGate.Admission.later(up(Double(second) + (sent.isEmpty ? 5 : 10)))
      #expect(gate.admit(isWanted: true, accounts: 1000, at: up(Double(second)), policy: steady) == after)
      sent.append(Double(second))
      let turn = gate.failed(ticket, told, retryAfter: nil, at: up(Double(second)), policy: steady, jitter: 0)
      #expect(turn == .nothing)
    }
    #expect(sent == [5, 15, 35, 65, 95, 125, 155, 185])
  }

  @Test("The pause that a provider asked for holds back a probe too, but no request without which a grant may end")
  func heldProbe() {
    var gate = ProviderGate()
    let sent = (0..<6).compactMap { _ in gate.go(at: 0) }
    _ = gate.limited(sent[0], retryAfter: .seconds(100), at: up(0), policy: steady)
    for ticket in sent.dropFirst() {
      _ = gate.failed(ticket, told, retryAfter: nil, at: up(0), policy: steady, jitter: 0)
    }
    #expect(gate.circuit.outage != nil)
    #expect(gate.admit(isWanted: false, accounts: 1, at: up(10), policy: steady) == .later(up(100)))
    guard case .go = gate.admit(isWanted: false, isUrgent: true, accounts: 1, at: up(10), policy: steady) else {
      Issue.record("an urgent request waits")
      return
    }
  }

  @Test("After a start with an older database one request at a time is sent, until a refresh has succeeded")
  func cautious() {
    var gate = ProviderGate()
    gate.isCautious = true
    let first = gate.go(at: 0)
    #expect(first != nil)
    #expect(gate.admit(isWanted: true, accounts: 1, at: up(0), policy: steady) == .full)
    _ = gate.answered(first, at: up(1), policy: steady)
    gate.isCautious = false
    #expect(gate.go(at: 1) != nil && gate.go(at: 1) != nil)
  }

  @Test("a caller's question may try every 5 seconds, and every 10 while requests are stuck")
  func wanted() {
    var gate = ProviderGate.inOutage()
    var sent: [Double] = []
    var stuck: [ProviderGate.Ticket] = []
    for second in 0...60 {
      guard let ticket = gate.go(at: Double(second), wanted: true) else { continue }
      sent.append(Double(second))
      if second < 30 {
        _ = gate.failed(ticket, told, retryAfter: nil, at: up(Double(second)), policy: steady, jitter: 0)
      } else {
        stuck.append(ticket)
      }
    }
    #expect(sent == [5, 10, 15, 20, 25, 30, 40, 50, 60])
    #expect(gate.inFlight == 4)
    // Only the latest stuck request gives new information, and any answer ends the outage.
    for ticket in stuck.dropLast() {
      _ = gate.failed(ticket, told, retryAfter: nil, at: up(60), policy: steady, jitter: 0)
    }
    #expect(gate.admit(isWanted: true, accounts: 1, at: up(61), policy: steady) == .later(up(70)))
    #expect(gate.answered(stuck[3], at: up(0), policy: steady) == .recovered)
  }

  @Test("A probe whose first question was answered is not stuck, and one followed by others has no verdict")
  func slow() {
    var gate = ProviderGate.inOutage()
    let first = gate.go(at: 5)!
    gate.goesOn(first, at: up(9))
    #expect(gate.circuit.probeEnd(policy: steady) == up(14))
    #expect(gate.admit(isWanted: true, accounts: 1, at: up(13), policy: steady) == .later(up(14)))
    let second = gate.go(at: 14)!
    gate.goesOn(first, at: up(15))
    #expect(gate.circuit.probeEnd(policy: steady) == up(19))
    #expect(gate.answered(second, at: up(0), policy: steady) == .recovered)
  }

  @Test("Probes that are stuck are followed at longer and longer intervals, until the provider's places are taken")
  func stuck() {
    var gate = ProviderGate.inOutage()
    let sent = (0...600).filter { gate.go(at: Double($0)) != nil }
    #expect(sent == [5, 10, 20, 40, 70, 100, 130, 160])
    #expect(gate.admit(isWanted: true, accounts: 1, at: up(601), policy: steady) == .full)
    gate.recheck(at: up(601))
    #expect(gate.go(at: 601) != nil)
  }

  @Test("After an answered probe, those stuck before it have no verdict")
  func stuckBeyondRecovery() {
    var gate = ProviderGate.inOutage()
    let probes = [5.0, 10, 20].compactMap { gate.go(at: $0) }
    #expect(gate.answered(probes[2], at: up(0), policy: steady) == .recovered)
    // They use no slot of new requests.
    let next = [gate.go(at: 20), gate.go(at: 20)].compactMap(\.self)
    #expect(next.count == 2 && gate.go(at: 20) == nil)
    for ticket in next { gate.withdrawn(ticket, at: up(20)) }
    for probe in probes.dropLast() {
      #expect(gate.failed(probe, told, retryAfter: nil, at: up(30), policy: steady, jitter: 0) == .nothing)
    }
    #expect(gate.circuit.outage == nil && gate.inFlight == 0)
    // What is sent from now on counts as ever.
    #expect(gate.fails(at: 31) == .unreachable)
  }

  @Test(
    "Requests stuck since outages come on top of the limit, at most as many again, and hold up no recovery",
    arguments: [2, 4, 8])
  func stuckAgainAndAgain(limit: Int) {
    var policy = steady
    policy.concurrentPerProvider = limit
    var gate = ProviderGate()
    var most = 0
    func admit(_ seconds: Double) -> ProviderGate.Ticket? {
      guard case .go(let ticket) = gate.admit(isWanted: true, accounts: 10, at: up(seconds), policy: policy) else {
        return nil
      }
      most = max(most, gate.inFlight)
      return ticket
    }
    var stuck: [ProviderGate.Ticket] = []
    for round in 0..<20 {
      let start = Double(round) * 100
      // One is stuck; later ones fail, until a probe is answered.
      if let ticket = admit(start) { stuck.append(ticket) }
      while gate.circuit.outage == nil, let ticket = admit(start) {
        _ = gate.failed(ticket, told, retryAfter: nil, at: up(start), policy: policy, jitter: 0)
      }
      if let probe = admit(start + 60) { #expect(gate.answered(probe, at: up(0), policy: policy) == .recovered) }
    }
    #expect(stuck.count == 2 * limit && most == 2 * limit)
    for ticket in stuck { _ = gate.failed(ticket, told, retryAfter: nil, at: up(2100), policy: policy, jitter: 0) }
    #expect(gate.inFlight == 0 && admit(2200) != nil)
  }

  @Test("A week of outage is asked about twice a minute")
  func aWeek() {
    var gate = ProviderGate.inOutage()
    var count = 0
    var now = up(0)
    while now < .seconds(7 * 86_400) {
      switch gate.admit(isWanted: false, accounts: 1000, at: now, policy: steady) {
      case .go(let ticket):
        count += 1
        _ = gate.failed(ticket, told, retryAfter: nil, at: now, policy: steady, jitter: 1)
      case .later(let moment): now = moment
      case .full: Issue.record("nothing is under way")
      }
    }
    #expect(count < 7 * 24 * 60 * 3)
  }

  @Test("Retry-After is obeyed in an outage, up to five minutes", arguments: [(40, 40), (100_000, 300)])
  func retryAfter(_ asked: Int, _ waited: Int) {
    var gate = ProviderGate()
    for _ in 0..<5 { gate.fails(at: 0, retryAfter: .seconds(asked)) }
    #expect(gate.admit(isWanted: true, accounts: 1, at: up(1), policy: steady) == .later(.seconds(waited)))
  }

  @Test("Those that were sent before the outage and fail later make it no longer, and one that is answered ends it")
  func stragglers() {
    var gate = ProviderGate()
    let early = (0..<3).map { _ in gate.go(at: 0)! }
    for _ in 0..<5 { gate.fails(at: 0) }
    let before = gate.circuit
    #expect(gate.failed(early[0], told, retryAfter: nil, at: up(3), policy: steady, jitter: 0) == .nothing)
    #expect(gate.circuit == before)
    #expect(gate.answered(early[1], at: up(0), policy: steady) == .recovered)
    #expect(gate.circuit.outage == nil)
    #expect(gate.inFlight == 1)
  }

  @Test("After an outage two requests go at once, then four, then as many as ever")
  func slowStart() {
    var gate = ProviderGate.inOutage()
    #expect(gate.answered(gate.go(at: 5)!, at: up(5), policy: steady) == .recovered)
    var windows: [Int] = []
    for round in 1...4 {
      let now = 5 + Double(round) * 60
      var under: [ProviderGate.Ticket] = []
      while let ticket = gate.go(at: now, wanted: true) { under.append(ticket) }
      windows.append(under.count)
      let first = under.removeFirst()
      _ = gate.answered(first, at: up(0), policy: steady)
      for ticket in under { gate.withdrawn(ticket, at: up(now)) }
    }
    #expect(windows == [2, 4, 8, 8])
    #expect(gate.circuit.state == .closed(failures: 0))
  }

  @Test("A provider that falls back while it recovers is not asked sooner for that")
  func fallsBack() {
    var gate = ProviderGate.inOutage()
    for now in [5.0, 15.0] { gate.fails(at: now) }
    _ = gate.answered(gate.go(at: 35)!, at: up(35), policy: steady)
    let again = gate.go(at: 36)!
    #expect(gate.failed(again, told, retryAfter: nil, at: up(36), policy: steady, jitter: 0) == .unreachable)
    #expect(gate.admit(isWanted: false, accounts: 1, at: up(40), policy: steady) == .later(up(66)))
    #expect(gate.admit(isWanted: true, accounts: 1, at: up(40), policy: steady) == .later(up(41)))
  }

  @Test("The state of an outage is examined again when the network returns")
  func recheck() {
    var gate = ProviderGate.inOutage()
    for now in [5.0, 15.0, 35.0] { gate.fails(at: now) }
    #expect(gate.go(at: 36) == nil)
    gate.recheck(at: up(36))
    #expect(gate.go(at: 36)?.isProbe == true)
  }

  @Test("An unsent probe leaves its slot to the next after a second, so no loop is endless")
  func withdrawnProbe() {
    var gate = ProviderGate.inOutage()
    let probe = gate.go(at: 5)!
    gate.withdrawn(probe, at: up(6))
    #expect(gate.inFlight == 0 && gate.go(at: 6.9) == nil)
    #expect(gate.go(at: 7)?.isProbe == true)
  }

  @Test(
    "A backlog is spread: due refreshes over a minute, waiting callers over ten seconds",
    arguments: [(1000, false, 60.0), (1000, true, 10.0), (10_000, false, 60.0), (40, false, 8.0), (40, true, 0.8)])
  func spread(_ accounts: Int, _ wanted: Bool, _ seconds: Double) {
    var gate = ProviderGate()
    var left = accounts
    var now = up(0)
    var busiestSecond: [Int64: Int] = [:]
    while left > 0 {
      switch gate.admit(isWanted: wanted, accounts: accounts, at: now, policy: steady) {
      case .go(let ticket):
        left -= 1
        busiestSecond[now.wholeSeconds, default: 0] += 1
        _ = gate.answered(ticket, at: up(0), policy: steady)
      case .later(let moment):
        #expect(moment > now)
        now = moment
      case .full: Issue.record("nothing is under way")
      }
    }
    // Two seconds' worth may go at once.
    #expect(now >= up(seconds * 0.9 - 2) && now <= up(seconds + 1))
    #expect(busiestSecond.values.max()! <= Int(3.1 * max(wanted ? 50 : 5, Double(accounts) / (wanted ? 10 : 60))) + 1)
  }

  @Test("Concurrent requests are limited by the policy, and every slot is returned")
  func places() {
    var gate = ProviderGate()
    var random = SystemRandomNumberGenerator()
    var under: [ProviderGate.Ticket] = []
    for step in 0..<20_000 {
      let now = Double(step) / 10
      // Beside what is sent since a recovery there may be as many that were sent before, and one probe.
      #expect(gate.inFlight == under.count && under.count <= 2 * steady.concurrentPerProvider + 1)
      switch Int.random(in: 0..<5, using: &random) {
      case 0, 1:
        if let ticket = gate.go(at: now, wanted: .random(using: &random), accounts: 50) { under.append(ticket) }
      case let action where !under.isEmpty:
        let ticket = under.remove(at: .random(in: 0..<under.count, using: &random))
        switch action {
        case 2: _ = gate.answered(ticket, at: up(0), policy: steady)
        case 3: _ = gate.failed(ticket, told, retryAfter: nil, at: up(now), policy: steady, jitter: 0.5)
        default: gate.withdrawn(ticket, at: up(now))
        }
      default: break
      }
    }
  }
}

@Suite struct CandidateTests {
  private func candidate(
    _ name: String, place: Int? = nil, canLose: Bool = true, atRisk: Bool = false, ends: Double? = 0, probes: Int = 0
  ) -> Candidate {
    Candidate(
      account: AccountName(rawValue: name)!, place: place, canLose: canLose, isAtRisk: atRisk,
      expiresAt: ends.map(at), probes: probes)
  }

  @Test("Who has nothing to lose probes before one that is at risk, until its probes have failed three times")
  func withoutLoss() {
    var safe = candidate("safe", canLose: false, ends: 90)
    let others = [candidate("sick", atRisk: true, ends: 50), candidate("wanted", place: 0)]
    #expect(Candidate.probe(others + [safe])?.account.rawValue == "safe")
    safe.probes = 3
    #expect(Candidate.probe(others + [safe])?.account.rawValue == "sick")
  }

  @Test("The prober is an account already at risk; after three failed probes it is another one")
  func probe() {
    var sick = candidate("sick", atRisk: true, ends: 50)
    let others = [candidate("wanted", place: 0, ends: 99), candidate("due", ends: 10)]
    for probes in 0..<3 {
      sick.probes = probes
      #expect(Candidate.probe(others + [sick])?.account.rawValue == "sick")
    }
    sick.probes = 3
    #expect(Candidate.probe(others + [sick])?.account.rawValue == "wanted")
    #expect(Candidate.probe([]) == nil)
  }
}
