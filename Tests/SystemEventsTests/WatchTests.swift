import Testing

@testable import SystemEvents

@Suite("Events of the clocks and of the network")
struct WatchTests {
  private let start = ClockSample(wall: .seconds(1_700_000_000), monotonic: .seconds(1000), boottime: .seconds(5000))

  private func sample(
    after seconds: Double, suspended: Double = 0, stepped: Double = 0
  ) -> ClockSample {
    func duration(_ seconds: Double) -> Duration { .milliseconds(Int64((seconds * 1000).rounded())) }
    return ClockSample(
      wall: start.wall + duration(seconds + suspended + stepped), monotonic: start.monotonic + duration(seconds),
      boottime: start.boottime + duration(seconds + suspended))
  }

  @Test(
    "of the clocks are jumps between two samples",
    arguments: [
      (0, 0, 0, []), (10, 0, 0, []), (86_400, 0, 0, []), (10, 1.9, 0, []), (10, 2.1, 0, [.resumed]),
      (10, 86_400 * 400, 0, [.resumed]), (10, 0, 1.9, []), (10, 0, -1.9, []),
      (10, 0, 3, [.clockStepped(by: .seconds(3))]), (10, 0, -3, [.clockStepped(by: .seconds(-3))]),
      (10, 0, -1_700_000_000, [.clockStepped(by: .seconds(-1_700_000_000))]),
      (1, 3600, -7200, [.resumed, .clockStepped(by: .seconds(-7200))]),
      // A suspend of an hour is not a step of the wall clock.
      (0, 3600, 0, [.resumed]),
    ] as [(Double, Double, Double, [SystemEvent])])
  func jumps(seconds: Double, suspended: Double, stepped: Double, events: [SystemEvent]) {
    var watch = Watch(at: start)
    func look(sawNetwork: Bool, at sample: ClockSample) -> [SystemEvent] {
      watch.looked(sawNetwork: sawNetwork, at: sample)
    }
    let sample = sample(after: seconds, suspended: suspended, stepped: stepped)
    #expect(look(sawNetwork: false, at: sample) == events)
    // Told once.
    #expect(look(sawNetwork: false, at: sample).isEmpty)
  }

  @Test("of the clocks exclude the drift of a slewed clock over hours")
  func slewed() {
    var watch = Watch(at: start)
    func look(sawNetwork: Bool, at sample: ClockSample) -> [SystemEvent] {
      watch.looked(sawNetwork: sawNetwork, at: sample)
    }
    for tick in 1...1000 {
      let seconds = Double(tick) * 10
      #expect(look(sawNetwork: false, at: sample(after: seconds, stepped: seconds * 0.083)).isEmpty)
    }
  }

  @Test("of the network come a second after the first sign, once for all signs, and not oftener than every ten seconds")
  func network() {
    var watch = Watch(at: start)
    func look(sawNetwork: Bool, at sample: ClockSample) -> [SystemEvent] {
      watch.looked(sawNetwork: sawNetwork, at: sample)
    }
    var told: [Int] = []
    // Each tenth of a second: signs from 0.1 to 0.5, at 3 and at 30 seconds.
    for tenth in 1...400 {
      let saw = (1...5).contains(tenth) || tenth == 30 || tenth == 300
      let events = look(sawNetwork: saw, at: sample(after: Double(tenth) / 10))
      if events == [.networkUp] { told.append(tenth) } else { #expect(events.isEmpty) }
    }
    #expect(told == [11, 111, 310])
  }

  @Test("need a look at the clocks every ten seconds, and one when the network is due")
  func pause() {
    var watch = Watch(at: start)
    func look(sawNetwork: Bool, at sample: ClockSample) -> [SystemEvent] {
      watch.looked(sawNetwork: sawNetwork, at: sample)
    }
    #expect(watch.pause == .seconds(10))
    _ = look(sawNetwork: true, at: sample(after: 1))
    #expect(watch.pause == .seconds(1))
    _ = look(sawNetwork: true, at: sample(after: 1.25))
    #expect(watch.pause == .seconds(0.75))
    // A suspend in between: overdue.
    #expect(look(sawNetwork: false, at: sample(after: 1.25, suspended: 100)) == [.resumed, .networkUp])
    #expect(watch.pause == .seconds(10))
  }
}
