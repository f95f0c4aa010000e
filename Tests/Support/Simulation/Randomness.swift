/// A seeded generator (SplitMix64). Each use has its own stream, so that a change in one leaves the others unchanged.
struct Randomness {
  enum Stream: UInt64 {
    /// The events of a run.
    case plan
    /// The order of the jobs.
    case order
    /// The actions of the provider and the network for a request.
    case network
    case disk
    case clients
    /// The broker's own.
    case entropy
    /// Later additions to the plan: stops because of the disk, outages that name a wait.
    case more
    /// Rate limits, and clocks that are behind at the start.
    case limits
  }

  private var state: UInt64

  init(seed: UInt64, _ stream: Stream) {
    state = (seed &+ 1) &* 0x9E37_79B9_7F4A_7C15 ^ (stream.rawValue &+ 1) &* 0xD1B5_4A32_D192_ED03
    for _ in 0..<4 { _ = next() }
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }

  mutating func below(_ count: Int) -> Int { Int(next() % UInt64(max(count, 1))) }

  mutating func chance(_ share: Double) -> Bool { Double(next() >> 11) / 9_007_199_254_740_992 < share }

  mutating func between(_ low: Int64, _ high: Int64) -> Int64 {
    high <= low ? low : low + Int64(next() % UInt64(high - low + 1))
  }

  /// Short ones as often as long ones.
  mutating func logarithmic(_ low: Int64, _ high: Int64) -> Int64 {
    var most = low
    while most < high, chance(0.7) { most *= 2 }
    return between(low, min(most, high))
  }

  mutating func pick<Value>(_ values: [Value]) -> Value { values[below(values.count)] }

  mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(truncatingIfNeeded: next() >> 32) } }
}
