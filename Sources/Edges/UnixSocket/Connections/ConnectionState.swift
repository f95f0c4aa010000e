/// The state of one connection, without its socket: whether its input is read, and how it ends. Each event is a method
/// that returns the handler's action.
struct ConnectionState {
  enum Input: Equatable {
    /// - Parameter isFirst: nothing but blank lines has come.
    case taken(isFirst: Bool)
    /// The client sends no more. Its lines that are not taken yet are still answered.
    case ended(isFirst: Bool)
    /// The client sent a descriptor, or speaks another protocol: no line is taken from it any more.
    case refused(hasEnded: Bool)
  }

  enum Phase: Equatable {
    case open(Input)
    /// The server has drained: the client cannot send, and the connection ends after its input or at its deadline.
    case finishing(Input)
    /// The connection is closed when the kernel has its output, or at its deadline.
    case closing(hasInputEnded: Bool)
    /// The same, and up to `left` bytes of input are read and discarded, so that a client that writes first can read its
    /// refusal: with unread input its next write would fail (unix(7)).
    case absorbing(left: Int, hasInputEnded: Bool)
    case closed
  }

  /// The handler's figures at an event.
  struct Load {
    /// Too much is unanswered, or unread by the client.
    var isAtLimit: Bool
    /// Complete lines may be left since the handler stopped to take them.
    var hasLines: Bool
    /// No request runs.
    var isIdle: Bool
  }

  /// The maximum bytes of a refused client that are read.
  static let absorbed = 1024 * 1024

  private(set) var phase = Phase.open(.taken(isFirst: true))
  var hold = LineHold()

  // MARK: what it is

  var isClosed: Bool { phase == .closed }

  var isAbsorbing: Bool { if case .absorbing = phase { true } else { false } }

  /// Nil: the connection ends, and its input is not examined any more.
  private var input: Input? {
    switch phase {
    case .open(let input), .finishing(let input): input
    case .closing, .absorbing, .closed: nil
    }
  }

  /// Whether its requests are answered: it neither ends nor has ended.
  var isServed: Bool { input != nil }

  /// Whether nothing but blank lines has come.
  var isFirst: Bool {
    switch input {
    case .taken(let isFirst), .ended(let isFirst): isFirst
    case .refused, nil: false
    }
  }

  var isRefusingInput: Bool { if case .refused = input { true } else { false } }

  /// Whether the connection is closed after its requests are answered.
  private var takesNoMore: Bool {
    switch input {
    case .ended, .refused: true
    case .taken, nil: false
    }
  }

  /// Whether no line is taken now.
  private func isFull(_ load: Load) -> Bool { !isServed || hold.isHeld || load.isAtLimit }

  /// Whether its lines of an earlier iteration can be taken.
  private func isResuming(_ load: Load) -> Bool { load.hasLines && !isFull(load) }

  /// Whether the client must finish a line that is read as it arrives.
  func awaitsLine(_ load: Load) -> Bool { !isFull(load) && !isRefusingInput }

  /// What epoll has to report.
  func wanted(_ load: Load, hasOutput: Bool) -> Poller.Readiness {
    var wanted: Poller.Readiness = !isAbsorbing && (isFull(load) || takesNoMore) ? [] : .input
    if hasOutput { wanted.insert(.output) }
    return wanted
  }

  // MARK: input

  enum Step: Equatable { case read, absorb, catchUp, close }

  /// epoll reports the socket.
  func ready(_ readiness: Poller.Readiness, _ load: Load) -> Step {
    if isAbsorbing { return .absorb }
    if isResuming(load) { return .catchUp }
    // The client has closed: no reply can reach it, and nothing more is read from it.
    if isFull(load) || takesNoMore { return readiness.isDisjoint(with: .end) ? .catchUp : .close }
    return readiness.isDisjoint(with: [.input, .end]) ? .catchUp : .read
  }

  /// The client sends no more.
  mutating func inputEnded() {
    change { input in
      switch input {
      case .taken(let isFirst), .ended(let isFirst): .ended(isFirst: isFirst)
      case .refused: .refused(hasEnded: true)
      }
    }
  }

  /// The client sent a descriptor, or speaks another protocol.
  mutating func refuseInput() {
    change { input in
      switch input {
      case .taken: .refused(hasEnded: false)
      case .ended: .refused(hasEnded: true)
      case .refused: input
      }
    }
  }

  /// A line is longer than the limit. As the first one it may be of another protocol.
  mutating func lineTooLong() {
    hold.lineTaken()
    if isFirst { refuseInput() }
  }

  /// A line was answered or passed on.
  mutating func requestTaken() {
    hold.lineTaken()
    if isFirst { change { if case .ended = $0 { .ended(isFirst: false) } else { .taken(isFirst: false) } } }
  }

  private mutating func change(_ change: (Input) -> Input) {
    switch phase {
    case .open(let input): phase = .open(change(input))
    case .finishing(let input): phase = .finishing(change(input))
    case .closing, .absorbing, .closed: break
    }
  }

  enum Next: Equatable {
    case takeLines
    /// The loop calls it in the next iteration, as it has taken its lines of this one.
    case resume
    case end
    case watch
  }

  /// Its output was sent as far as possible.
  func caughtUp(_ load: Load, mayTakeLines: Bool) -> Next {
    if isResuming(load) { return mayTakeLines ? .takeLines : .resume }
    return takesNoMore && !load.hasLines && load.isIdle ? .end : .watch
  }

  // MARK: the end

  enum Sent: Equatable { case goOn, endOutput, close }

  /// The kernel has all of its output.
  func sentAll() -> Sent {
    switch phase {
    case .open, .finishing: .goOn
    case .absorbing: .endOutput
    case .closing, .closed: .close
    }
  }

  enum Ending: Equatable {
    /// Send, and set the deadline.
    case linger
    /// Send; the deadline of the drain runs.
    case send
    /// It ends already.
    case nothing
  }

  /// The end after its answers.
  ///
  /// - Parameter mayAbsorb: one more client may be listened to; evaluated only for a client whose input was refused.
  mutating func end(mayAbsorb: @autoclosure () -> Bool) -> Ending {
    guard let input else { return .nothing }
    return end(input, isAbsorbing: input == .refused(hasEnded: false) && mayAbsorb())
  }

  /// A refusal is sent.
  ///
  /// - Parameter mayAbsorb: one more client may be listened to; evaluated only if the connection does not end already.
  mutating func refuse(mayAbsorb: @autoclosure () -> Bool) -> Ending {
    guard let input else { return .nothing }
    return end(input, isAbsorbing: mayAbsorb())
  }

  private mutating func end(_ input: Input, isAbsorbing: Bool) -> Ending {
    let isFinishing = if case .finishing = phase { true } else { false }
    let hasEnded = hasInputEnded(input)
    phase =
      isAbsorbing ? .absorbing(left: Self.absorbed, hasInputEnded: hasEnded) : .closing(hasInputEnded: hasEnded)
    return isFinishing ? .send : .linger
  }

  private func hasInputEnded(_ input: Input) -> Bool {
    switch input {
    case .ended: true
    case .taken: false
    case .refused(let hasEnded): hasEnded
    }
  }

  /// Discarded input came. False: it is enough.
  mutating func absorbed(_ count: Int) -> Bool {
    guard case .absorbing(let left, let hasInputEnded) = phase else { return false }
    phase = .absorbing(left: left - count, hasInputEnded: hasInputEnded)
    return left > count
  }

  enum Finish: Equatable {
    /// The client's input is ended by us.
    case endInput
    /// It would not be read.
    case end
    case nothing
  }

  /// The server has drained.
  func finish(_ load: Load) -> Finish { !isServed ? .nothing : isFull(load) ? .end : .endInput }

  /// - Returns: whether the deadline must be set.
  mutating func inputWasEnded() -> Bool {
    guard case .open(let input) = phase else { return false }
    phase = .finishing(input)
    return true
  }

  /// - Returns: nil: it was closed before.
  mutating func close() -> (wasAbsorbing: Bool, hasInputEnded: Bool)? {
    let closed: (Bool, Bool)? =
      switch phase {
      case .open(let input), .finishing(let input): (false, hasInputEnded(input))
      case .closing(let hasInputEnded): (false, hasInputEnded)
      case .absorbing(_, let hasInputEnded): (true, hasInputEnded)
      case .closed: nil
      }
    phase = .closed
    return closed
  }
}
