/// Makes events from observations and clocks; reads nothing itself.
///
/// A step and a suspend appear as a jump between two samples: samples must not be further apart than ``Pace/tick``, in
/// which no clock is slewed by the minimum of a step.
struct Watch {
  struct Pace: Sendable {
    /// How long things may settle after the first sign of a network.
    var settling = Duration.seconds(1)
    /// Between two events of the network: machines with containers have links come and go all the time.
    var networkInterval = Duration.seconds(10)
    /// Between two looks at the clocks.
    var tick = Duration.seconds(10)
  }

  static let leastSuspend = Duration.seconds(2)
  static let leastStep = Duration.seconds(2)

  private let pace: Pace
  private var last: ClockSample
  /// When the first sign of a network was seen that was not told yet.
  private var networkSince: Duration?
  private var networkTold: Duration?

  init(pace: Pace = Pace(), at sample: ClockSample) {
    self.pace = pace
    last = sample
  }

  /// The events since the previous sample.
  mutating func looked(sawNetwork: Bool, at sample: ClockSample) -> [SystemEvent] {
    var events: [SystemEvent] = []
    if (sample.boottime - sample.monotonic) - (last.boottime - last.monotonic) > Self.leastSuspend {
      events.append(.resumed)
    }
    let step = (sample.wall - sample.boottime) - (last.wall - last.boottime)
    if step > Self.leastStep || step < .zero - Self.leastStep { events.append(.clockStepped(by: step)) }
    last = sample
    if sawNetwork, networkSince == nil { networkSince = sample.boottime }
    if let due = networkDue, sample.boottime >= due {
      events.append(.networkUp)
      networkSince = nil
      networkTold = sample.boottime
    }
    return events
  }

  /// How long nothing needs to be looked at.
  var pause: Duration {
    networkDue.map { min(pace.tick, max(.zero, $0 - last.boottime)) } ?? pace.tick
  }

  private var networkDue: Duration? {
    networkSince.map { max($0 + pace.settling, (networkTold ?? .zero - pace.networkInterval) + pace.networkInterval) }
  }
}
