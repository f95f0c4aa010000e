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
    input.hasEnded = true
    // A closed client has ended its side too.
    guard isStillCaller() else { return close() }
    if isOver {
      if output.isSent { close() }
    } else {
      goOn()
    }
  }

  /// In its order.
  func take(_ item: Turn.Item) {
    guard !isOver else { return }
    turn.waiting.isEmpty && canTake ? handle(item) : turn.waiting.append(item)
  }

  /// Whether it can accept more now: not after an unanswered request, nor, if a client does not read its answers,
  /// another request; and limited per slot.
  private var canTake: Bool {
    guard turn.credit > 0, !isOver, let context else { return false }
    return switch state {
    case .answering, .ending, .closed: false
    case .streaming: true
    case .idle, .inHead, .collecting: context.channel.isWritable
    }
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
      if case .idle = state, hasMore, waitsForPace() { break }
      if let item = turn.waiting.popFirst() {
        handle(item)
      } else if incoming.hasMore {
        incoming.parse(bodyLeft >= Turn.largeSlice ? Turn.largeSlice : Turn.slice)
      } else {
        break
      }
    }
    turn.isTaking = false
    guard !isOver, context != nil else { return }
    if input.hasEnded, !hasMore { return inputEnded() }
    if connections.isStopping {
      stop()
      if isOver { return }
    }
    if hasMore != turn.isBehind {
      turn.isBehind = hasMore
      note()
    }
    if turn.credit <= 0, hasMore { waitForTurn() }
    // A part of a chunk's head is none of a body.
    if case .streaming(let body) = state, body.isWanted, !hasMore { context?.read() }
    // A connection that is still read reports its end. So input after a request is at most one read.
    if hasMore { pause() } else if !isBusy, !isStreaming { goOnReading() }
  }

  /// Whether the next request has to wait, since its holder sends too many.
  private func waitsForPace() -> Bool {
    guard !turn.isPaced, let pace, let due = pace.due(at: .now()) else { return turn.isPaced }
    turn.isPaced = true
    if pace.wait(self) { connections.resumePaced(pace, at: due) }
    return true
  }

  func resumePaced() {
    turn.isPaced = false
    guard context != nil, !isOver, !turn.isQueued else { return }
    goOnInRead()
    incoming.parsed()
  }

  /// The read input has arrived. Output is sent at the end of the read.
  func goOnInRead(isTurn: Bool = false) {
    output.isInRead = true
    goOn(isTurn: isTurn)
    output.isInRead = false
  }

  private func waitForTurn() {
    if !turn.isBehind {
      turn.isBehind = true
      note()
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
  private var bodyLeft: Int { if case .streaming(let body) = state { body.left } else { 0 } }

  private var isStreaming: Bool { if case .streaming = state { true } else { false } }

  /// The client sends no more, and all of it is handled but this request.
  var hasAskedAll: Bool { input.hasEnded && !hasMore && !incoming.isParsing }

  /// Whether a request is read to its end and not answered.
  private var isBusy: Bool { if case .answering = state { true } else { false } }

  private func handle(_ item: Turn.Item) {
    turn.credit -= 1
    switch item {
    case .part(let part): handle(part)
    case .failure(let error): handle(error)
    }
  }

  private func handle(_ part: HTTPServerRequestPart) {
    switch (part, state) {
    case (.head(let head), .idle), (.head(let head), .inHead):
      turn.credit -= Turn.costOfHead
      begin(head)
    case (.body(var bytes), .collecting(_, let limit)):
      guard collected.readableBytes + bytes.readableBytes <= limit else { return refuse(.largeBody) }
      collected.writeBuffer(&bytes)
    case (.end, .collecting(let head, _)):
      let body = collected
      collected = ByteBuffer()
      if !connections.limits.keepsConnections { isOver = true }
      answer(head, body)
    case (.body(let bytes), .streaming(let body)):
      times.deadline = nil
      restartLate()
      body.yield(bytes)
    case (.end, .streaming(let body)):
      state = .answering
      times.deadline = nil
      restartLate()
      body.finish(nil)
    case (.head, _), (.body, _), (.end, _): break
    }
  }

  /// A body that moves may take any time; the answer has its time from the latest part of it.
  private func restartLate() {
    if let time = times.late?.time { times.late?.due = .now() + time }
  }

  private func handle(_ error: HTTPParserError) {
    switch state {
    case .idle, .inHead, .collecting: if case .headerOverflow = error { refuse(.largeHead) } else { refuse(.noHTTP) }
    // Framing that breaks in the middle of a body: nothing behind it is another request.
    case .streaming(let body):
      if !response.hasBegun { refuse(.noHTTP) }
      body.finish(.cut)
      if case .streaming = state { close() }
    case .answering, .ending, .closed: break
    }
  }

  /// The client sends no more, and all that it asked is answered.
  private func inputEnded() {
    switch state {
    case .idle, .inHead, .collecting: closeWhenSent()
    case .streaming(let body):
      let hadBegun = response.hasBegun
      body.finish(.cut)
      // Unless it was answered for that.
      if case .streaming = state { hadBegun ? close() : closeWhenSent() }
    case .answering, .ending, .closed: break
    }
  }
}
