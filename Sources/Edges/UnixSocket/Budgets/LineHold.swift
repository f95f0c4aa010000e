/// Why the next line of a connection waits, and the memory that is reserved for it.
struct LineHold {
  /// A line that waits for memory or for the rate is late, until one is taken.
  enum State: Equatable {
    case none(isLate: Bool)
    /// Until one of its requests is answered.
    case untilAnswer(isLate: Bool)
    /// Until there is memory for its lines.
    case untilRoom
    /// Until its holder may send more.
    case untilPaced
  }

  enum Cause { case answer, room, pace }

  private(set) var state = State.none(isLate: false)
  /// Bytes that are reserved for the line that is being read.
  var reserved = 0

  /// Whether no line is taken.
  var isHeld: Bool { if case .none = state { false } else { true } }

  /// Whether the next line was held back.
  var isLate: Bool {
    switch state {
    case .none(let isLate), .untilAnswer(let isLate): isLate
    case .untilRoom, .untilPaced: true
    }
  }

  /// The next line cannot be taken. Ignored if it already waits: the first cause ends the wait.
  mutating func holdBack(until cause: Cause) {
    guard case .none(let isLate) = state else { return }
    state =
      switch cause {
      case .answer: .untilAnswer(isLate: isLate)
      case .room: .untilRoom
      case .pace: .untilPaced
      }
  }

  /// The output of its tasks was taken.
  ///
  /// - Parameter hasRoom: there is memory for its lines.
  mutating func answered(hasRoom: Bool) {
    switch state {
    case .none: break
    case .untilAnswer(let isLate): state = .none(isLate: isLate)
    case .untilRoom, .untilPaced: if hasRoom { state = .none(isLate: true) }
    }
  }

  /// Its holder may send more.
  mutating func paced() { if state == .untilPaced { state = .none(isLate: true) } }

  /// A line was answered, passed on or refused.
  mutating func lineTaken() { if case .none(isLate: true) = state { state = .none(isLate: false) } }

  /// Gives up the memory of its lines.
  ///
  /// - Returns: whether it waits in the queue for room, and the reserved bytes.
  mutating func release() -> (isQueued: Bool, reserved: Int) {
    defer { (state, reserved) = (.none(isLate: isLate), 0) }
    return (state == .untilRoom, reserved)
  }
}
