import Testing

@testable import UnixSocket

/// The events of one connection, and the resulting actions.
@Suite struct ConnectionStateTests {
  enum Event: Sendable {
    case request, tooLong, refusedInput, inputEnded
    case held(LineHold.Cause), answered, room, paced
    /// epoll reports it; with complete lines left, or at a limit.
    case ready(Poller.Readiness), readyWithLines, readyAtLimit(Poller.Readiness)
    /// All is sent; with lines left, in the next iteration, and while requests run.
    case caughtUp, caughtUpWithLines, caughtUpLate, caughtUpBusy
    case watch, watchAtLimit
    case sent
    case end, endUnheard, refuse, refuseUnheard
    case absorbed(Int)
    case finish, finishAtLimit, shut
    case close
  }

  private static let calm = ConnectionState.Load(isAtLimit: false, hasLines: false, isIdle: true)
  private static let withLines = ConnectionState.Load(isAtLimit: false, hasLines: true, isIdle: true)
  private static let busy = ConnectionState.Load(isAtLimit: false, hasLines: false, isIdle: false)
  private static let atLimit = ConnectionState.Load(isAtLimit: true, hasLines: false, isIdle: false)

  /// The action; nil: the event has none.
  private static func apply(_ event: Event, to state: inout ConnectionState) -> String? {
    switch event {
    case .request: state.requestTaken()
    case .tooLong: state.lineTooLong()
    case .refusedInput: state.refuseInput()
    case .inputEnded: state.inputEnded()
    case .held(let cause): state.hold.holdBack(until: cause)
    case .answered: state.hold.answered(hasRoom: false)
    case .room: state.hold.answered(hasRoom: true)
    case .paced: state.hold.paced()
    case .ready(let readiness): return "\(state.ready(readiness, calm))"
    case .readyWithLines: return "\(state.ready(.input, withLines))"
    case .readyAtLimit(let readiness): return "\(state.ready(readiness, atLimit))"
    case .caughtUp: return "\(state.caughtUp(calm, mayTakeLines: true))"
    case .caughtUpWithLines: return "\(state.caughtUp(withLines, mayTakeLines: true))"
    case .caughtUpLate: return "\(state.caughtUp(withLines, mayTakeLines: false))"
    case .caughtUpBusy: return "\(state.caughtUp(busy, mayTakeLines: true))"
    case .watch: return text(state.wanted(calm, hasOutput: false))
    case .watchAtLimit: return text(state.wanted(atLimit, hasOutput: true))
    case .sent: return "\(state.sentAll())"
    case .end: return "\(state.end(mayAbsorb: true))"
    case .endUnheard: return "\(state.end(mayAbsorb: false))"
    case .refuse: return "\(state.refuse(mayAbsorb: true))"
    case .refuseUnheard: return "\(state.refuse(mayAbsorb: false))"
    case .absorbed(let count): return state.absorbed(count) ? "goOn" : "enough"
    case .finish: return "\(state.finish(calm))"
    case .finishAtLimit: return "\(state.finish(atLimit))"
    case .shut: return state.inputWasEnded() ? "setDeadline" : "nothing"
    case .close:
      guard let (wasAbsorbing, hasInputEnded) = state.close() else { return "closed before" }
      return (["close"] + (wasAbsorbing ? ["absorbing"] : []) + (hasInputEnded ? ["ended"] : [])).joined(separator: " ")
    }
    return nil
  }

  private static func text(_ readiness: Poller.Readiness) -> String {
    switch readiness {
    case []: "none"
    case .input: "input"
    case .output: "output"
    case [.input, .output]: "input output"
    default: "\(readiness.rawValue)"
    }
  }

  private static let absorbed = ConnectionState.absorbed

  @Test(
    "each event has its action",
    arguments: [
      // Open: input is read, unless there is too much to answer.
      ([.ready(.input), .ready(.output), .ready(.end), .watch], ["read", "catchUp", "read", "input"]),
      ([.readyAtLimit(.output), .readyAtLimit(.end), .watchAtLimit], ["catchUp", "close", "output"]),
      ([.readyWithLines, .caughtUpWithLines, .caughtUpLate], ["catchUp", "takeLines", "resume"]),
      ([.caughtUp, .caughtUpBusy, .sent], ["watch", "watch", "goOn"]),
      // The end of the input: the remaining lines and answers come first.
      (
        [.inputEnded, .ready(.output), .ready(.end), .watch, .caughtUpWithLines, .caughtUpBusy, .caughtUp],
        ["catchUp", "close", "none", "takeLines", "watch", "end"]
      ),
      ([.inputEnded, .end, .sent, .close], ["linger", "close", "close ended"]),
      // Refused input.
      ([.refusedInput, .ready(.end), .watch, .caughtUpBusy, .caughtUp], ["close", "none", "watch", "end"]),
      ([.refusedInput, .end, .watch, .sent, .ready(.input)], ["linger", "input", "endOutput", "absorb"]),
      ([.refusedInput, .endUnheard, .watch, .sent, .close], ["linger", "none", "close", "close"]),
      ([.tooLong, .end, .sent], ["linger", "endOutput"]), ([.request, .tooLong, .end, .sent], ["linger", "close"]),
      // A client that sends no more need not be listened to.
      ([.refusedInput, .inputEnded, .end, .sent, .close], ["linger", "close", "close ended"]),
      ([.inputEnded, .refusedInput, .end, .sent, .close], ["linger", "close", "close ended"]),
      ([.inputEnded, .tooLong, .end, .sent, .close], ["linger", "close", "close ended"]),
      ([.end, .sent, .close], ["linger", "close", "close"]),
      // A refusal.
      ([.refuse, .sent, .close], ["linger", "endOutput", "close absorbing"]),
      ([.inputEnded, .refuse, .close], ["linger", "close absorbing ended"]),
      ([.refuseUnheard, .sent], ["linger", "close"]),
      ([.refuse, .absorbed(1), .absorbed(absorbed - 2), .absorbed(1)], ["linger", "goOn", "goOn", "enough"]),
      ([.refuse, .absorbed(absorbed + 1)], ["linger", "enough"]),
      ([.absorbed(1), .end, .absorbed(1)], ["enough", "linger", "enough"]),
      // Only the first end counts, and nothing is taken after it.
      ([.end, .end, .refuse, .sent], ["linger", "nothing", "nothing", "close"]),
      ([.refuse, .refuseUnheard, .end, .sent], ["linger", "nothing", "nothing", "endOutput"]),
      (
        [.end, .readyWithLines, .ready(.end), .caughtUpWithLines, .caughtUp, .watch],
        ["linger", "catchUp", "close", "watch", "watch", "none"]
      ),
      ([.end, .inputEnded, .close], ["linger", "close"]), ([.end, .refusedInput, .sent], ["linger", "close"]),
      // The drain: the input is ended by us, and one deadline runs.
      ([.finish, .shut, .ready(.input), .watch, .caughtUp], ["endInput", "setDeadline", "read", "input", "watch"]),
      ([.shut, .inputEnded, .caughtUp, .end, .close], ["setDeadline", "end", "send", "close ended"]),
      ([.shut, .shut, .finish], ["setDeadline", "nothing", "endInput"]),
      ([.shut, .refuse, .close], ["setDeadline", "send", "close absorbing"]),
      ([.finishAtLimit], ["end"]), ([.held(.room), .finish], ["end"]),
      ([.end, .finish, .shut], ["linger", "nothing", "nothing"]),
      // Closed: nothing more.
      (
        [.close, .close, .ready(.input), .caughtUpWithLines, .end, .refuse, .finish, .shut, .absorbed(1)],
        ["close", "closed before", "catchUp", "watch", "nothing", "nothing", "nothing", "nothing", "enough"]
      ),
      ([.close, .inputEnded, .refusedInput, .request, .close], ["close", "closed before"]),
      // A held line: the connection is not read, and ends late.
      ([.held(.pace), .ready(.output), .ready(.end), .watch], ["catchUp", "close", "none"]),
      ([.held(.room), .readyWithLines, .caughtUpWithLines, .paced, .watch], ["catchUp", "watch", "none"]),
      ([.inputEnded, .held(.pace), .caughtUpWithLines, .paced, .caughtUpWithLines], ["watch", "takeLines"]),
      ([.held(.answer), .answered, .watch], ["input"]), ([.held(.room), .answered, .room, .watch], ["input"]),
    ] as [([Event], [String])])
  func actions(_ events: [Event], _ expected: [String]) {
    var state = ConnectionState()
    #expect(events.compactMap { Self.apply($0, to: &state) } == expected)
  }

  @Test(
    "another protocol is recognised by the first line, which blank ones do not precede",
    arguments: [
      ([], true), ([.inputEnded], true), ([.held(.pace), .paced], true), ([.shut], true), ([.request], false),
      ([.inputEnded, .request], false), ([.shut, .request], false), ([.refusedInput], false), ([.end], false),
      ([.close], false),
    ] as [([Event], Bool)])
  func isFirst(_ events: [Event], _ expected: Bool) {
    var state = ConnectionState()
    for event in events { _ = Self.apply(event, to: &state) }
    #expect(state.isFirst == expected)
  }

  @Test(
    "a client must finish its line only while it is read",
    arguments: [
      ([], true), ([.request], true), ([.inputEnded], true), ([.shut], true), ([.refusedInput], false),
      ([.held(.room)], false), ([.held(.room), .room], true), ([.end], false), ([.refuse], false), ([.close], false),
    ] as [([Event], Bool)])
  func awaitsLine(_ events: [Event], _ expected: Bool) {
    var state = ConnectionState()
    for event in events { _ = Self.apply(event, to: &state) }
    #expect(state.awaitsLine(Self.calm) == expected)
    #expect(!state.awaitsLine(Self.atLimit))
  }

  @Test("whether one more client may be listened to is asked only when one must be") func lazy() {
    var (asked, state) = (0, ConnectionState())
    func ask() -> Bool {
      asked += 1
      return true
    }
    _ = state.end(mayAbsorb: ask())
    _ = state.end(mayAbsorb: ask())
    _ = state.refuse(mayAbsorb: ask())
    #expect(asked == 0)
    state = ConnectionState()
    _ = state.refuse(mayAbsorb: ask())
    #expect(asked == 1)
  }
}

/// The causes for which lines wait, and their ends.
@Suite struct LineHoldTests {
  enum Event: Sendable { case held(LineHold.Cause), answered, room, paced, taken, released }

  @Test(
    "each cause has its end, and a line that waited for memory or the rate is late",
    arguments: [
      ([], .none(isLate: false)), ([.answered, .room, .paced, .taken], .none(isLate: false)),
      ([.held(.answer)], .untilAnswer(isLate: false)), ([.held(.room)], .untilRoom), ([.held(.pace)], .untilPaced),
      ([.held(.answer), .answered], .none(isLate: false)), ([.held(.answer), .room], .none(isLate: false)),
      ([.held(.answer), .paced], .untilAnswer(isLate: false)),
      ([.held(.room), .answered], .untilRoom), ([.held(.room), .paced], .untilRoom),
      ([.held(.room), .room], .none(isLate: true)), ([.held(.pace), .answered], .untilPaced),
      ([.held(.pace), .room], .none(isLate: true)), ([.held(.pace), .paced], .none(isLate: true)),
      // The first cause ends the wait.
      ([.held(.room), .held(.pace)], .untilRoom), ([.held(.pace), .held(.answer)], .untilPaced),
      ([.held(.answer), .held(.room)], .untilAnswer(isLate: false)),
      // It is late until one is taken.
      ([.held(.room), .room, .held(.answer)], .untilAnswer(isLate: true)),
      ([.held(.room), .room, .held(.answer), .answered], .none(isLate: true)),
      ([.held(.room), .room, .taken], .none(isLate: false)), ([.held(.pace), .taken], .untilPaced),
      ([.held(.room), .released], .none(isLate: true)), ([.held(.answer), .released], .none(isLate: false)),
    ] as [([Event], LineHold.State)])
  func holds(_ events: [Event], _ expected: LineHold.State) {
    var hold = LineHold()
    for event in events {
      switch event {
      case .held(let cause): hold.holdBack(until: cause)
      case .answered: hold.answered(hasRoom: false)
      case .room: hold.answered(hasRoom: true)
      case .paced: hold.paced()
      case .taken: hold.lineTaken()
      case .released: _ = hold.release()
      }
    }
    #expect(hold.state == expected)
    #expect(hold.isHeld == { if case .none = expected { false } else { true } }())
  }

  @Test("its memory is given up once") func released() {
    var hold = LineHold()
    hold.reserved = 100
    var released = [hold.release()]
    hold.holdBack(until: .room)
    released += [hold.release(), hold.release()]
    #expect(released.map(\.isQueued) == [false, true, false])
    #expect(released.map(\.reserved) == [100, 0, 0])
  }
}

@Suite struct LineTurnTests {
  @Test("each iteration has its lines, and asks for the next once") func turns() {
    var turn = LineTurn()
    #expect(turn.left == 0)
    turn.begin(1)
    #expect(turn.left == LineTurn.most)
    turn.left = 3
    turn.begin(1)
    #expect(turn.left == 3)
    var asked = [turn.awaitNext(), turn.awaitNext()]
    turn.begin(2)
    #expect(turn.left == LineTurn.most)
    asked.append(turn.awaitNext())
    turn.resume()
    asked.append(turn.awaitNext())
    #expect(asked == [true, false, false, true])
  }
}
