import BrokerAPI
import Listening
import NIOCore
import NIOHTTP1

// Input is handled in order, in parts.
extension HTTPConnectionHandler {
  /// The amount of work of a connection before others continue.
  struct Turn {
    /// The decoder's result.
    enum Item {
      case part(HTTPServerRequestPart)
      case failure(HTTPParserError)
    }

    /// In parts of requests. A head costs more than a part of a body.
    static let size = 32
    static let costOfHead = 8
    /// Bytes that are parsed at a time, in which there may be many requests; and of a body whose length is known.
    static let slice = 2048
    static let largeSlice = 65_536

    /// Parsed input that waits for the earlier answer, or for the connection's slot.
    var waiting = CircularBuffer<Item>()
    var isTaking = false
    /// The rest of the slot.
    var credit = 0
    /// Something came that was not handled at once.
    var isBehind = false
    /// It waits for its turn.
    var isQueued = false
    /// Its holder has sent too many requests: the next one waits for the pace.
    var isPaced = false
  }

  /// The client sends no more, as an end after its data shows.
  func inputCloses() {
    state.inputEnded()
    // A closed client has ended its side too.
    guard isStillCaller() else { return close() }
    if state.isOver {
      if state.isSent { close() }
    } else {
      goOn()
    }
  }

  /// In its order.
  func receive(_ item: Turn.Item) {
    guard !state.isOver else { return }
    turn.waiting.isEmpty && canTake ? handle(item) : turn.waiting.append(item)
  }

  /// Whether it can accept more now, which is limited per slot.
  private var canTake: Bool {
    guard turn.credit > 0, let context else { return false }
    return state.takes(isWritable: context.channel.isWritable)
  }

  /// Handles received input, after a read or an answer.
  ///
  /// - Parameter isTurn: it has waited for its slot.
  func goOn(isTurn: Bool = false) {
    guard !turn.isTaking, !turn.isQueued else { return }
    if !isTurn, hasMore, !turn.isPaced, !connections.isStopping, !connections.hasTime() { return waitForTurn() }
    turn.credit = Turn.size
    turn.isTaking = true
    while canTake {
      if state.isIdle, hasMore, waitsForPace() { break }
      if let item = turn.waiting.popFirst() {
        handle(item)
      } else if incoming.hasMore {
        incoming.parse(bodyLeft >= Turn.largeSlice ? Turn.largeSlice : Turn.slice)
      } else {
        break
      }
    }
    turn.isTaking = false
    guard !state.isOver, context != nil else { return }
    if state.hasInputEnded, !hasMore {
      if let action = state.inputHandled() { perform(action) }
      return
    }
    if connections.isStopping {
      stop()
      if state.isOver { return }
    }
    if hasMore != turn.isBehind {
      turn.isBehind = hasMore
      recordProgress()
    }
    if turn.credit <= 0, hasMore { waitForTurn() }
    // A part of a chunk's head is none of a body.
    if let body = state.body, body.isWanted, !hasMore { context?.read() }
    // A connection that is still read reports its end. So input after a request is at most one read.
    if hasMore { pause() } else if !state.isAnswering, state.body == nil { goOnReading() }
  }

  /// Whether the next request has to wait, since its holder sends too many.
  private func waitsForPace() -> Bool {
    guard !turn.isPaced, let pace = client.pace, let due = pace.due(at: .now()) else { return turn.isPaced }
    turn.isPaced = true
    if pace.wait(self) { connections.resumePaced(pace, at: due) }
    return true
  }

  func resumePaced() {
    turn.isPaced = false
    guard context != nil, !state.isOver, !turn.isQueued else { return }
    goOnInRead()
    incoming.parsed()
  }

  /// The read input has arrived. Output is sent at the end of the read.
  func goOnInRead(isTurn: Bool = false) {
    flow.isInRead = true
    goOn(isTurn: isTurn)
    flow.isInRead = false
  }

  private func waitForTurn() {
    if !turn.isBehind {
      turn.isBehind = true
      recordProgress()
    }
    turn.isQueued = true
    pause()
    connections.wait(self)
  }

  /// It has its turn again.
  func takeTurn() {
    turn.isQueued = false
    guard context != nil else { return }
    goOnInRead(isTurn: true)
    incoming.parsed()
  }

  /// Whether something came that is not handled.
  var hasMore: Bool { !turn.waiting.isEmpty || incoming.hasMore }

  /// Bytes of a body that are still to come, where its length is known.
  private var bodyLeft: Int { state.body?.left ?? 0 }

  /// Whether more than this request came.
  var hasMoreRequests: Bool { hasMore || incoming.isParsing }

  private func handle(_ item: Turn.Item) {
    turn.credit -= 1
    let action: HTTPConnectionState.Action?
    switch item {
    case .part(let part): action = state.received(part)
    case .failure(let error): action = state.failed(error)
    }
    if let action { perform(action) }
  }

  func perform(_ action: HTTPConnectionState.Action) {
    switch action {
    case .begin(let head):
      turn.credit -= Turn.costOfHead
      begin(head)
    case .answer(let head, let body): answer(head, body)
    case .pass(let bytes, let body):
      times.deadline = nil
      restartLate()
      body.yield(bytes)
    case .endBody(let body):
      times.deadline = nil
      restartLate()
      body.finish(nil)
    case .stall(let body):
      times.deadline = nil
      body.finish(.stalled)
    case .refuse(let refusal, let body):
      refuse(refusal)
      body?.finish(.cut)
    case .cut(let body, let end):
      body.finish(.cut)
      // Unless it was answered for that.
      if state.body != nil { perform(end) }
    case .end(let end): perform(end)
    }
  }

  private func perform(_ end: HTTPConnectionState.End) {
    switch end {
    case .close: close()
    case .closeWhenSent: closeWhenSent()
    }
  }

  /// A body that moves may take any time; the answer has its time from the latest part of it.
  private func restartLate() {
    if let time = times.late?.time { times.late?.due = .now() + time }
  }

  /// Nothing that comes is examined any more.
  func dropInput() {
    turn.waiting.removeAll()
    incoming.dropHeld()
  }
}
