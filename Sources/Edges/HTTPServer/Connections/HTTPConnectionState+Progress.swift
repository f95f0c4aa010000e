import NIOHTTP1

// The facts that follow from the phase.
extension HTTPConnectionState {
  /// The progress, which decides the order in which connections are closed.
  func progress(_ load: Load) -> HTTPConnection.Progress {
    switch phase {
    case .idle: load.isWriting ? .answering : load.isBehind ? .inBody : .silent
    case .inHead: load.isWriting ? .answering : load.isBehind ? .inBody : .inHead
    case .begun, .collecting: .inBody
    case .streaming(_, _, .awaited): .uploading
    case .streaming(_, _, .begun), .answering: .handling
    case .ending(.unsent, _): .answering
    case .ending(.sent, _), .closed: .over
    }
  }

  /// The request that is read or answered.
  var head: HTTPRequestHead? {
    switch phase {
    case .begun(let head), .collecting(let head, _, _), .streaming(let head, _, _), .answering(let head, _, _): head
    case .idle, .inHead, .ending, .closed: nil
    }
  }

  /// The body whose parts are passed on when they come.
  var body: HTTPRequestBody? { if case .streaming(_, let body, _) = phase { body } else { nil } }

  var answer: Answer? {
    switch phase {
    case .streaming(_, _, let answer), .answering(_, let answer, _): answer
    case .idle, .inHead, .begun, .collecting, .ending, .closed: nil
    }
  }

  var hasBegun: Bool { if case .begun = answer { true } else { false } }

  var isIdle: Bool { if case .idle = phase { true } else { false } }

  /// Whether no head was read since the last answer.
  var isBetweenRequests: Bool {
    switch phase {
    case .idle, .inHead: true
    case .begun, .collecting, .streaming, .answering, .ending, .closed: false
    }
  }

  /// Whether a request is read to its end and not answered.
  var isAnswering: Bool { if case .answering = phase { true } else { false } }

  /// Whether nothing that comes is examined any more.
  var isOver: Bool {
    switch phase {
    case .answering(_, _, let isLast): isLast
    case .ending, .closed: true
    case .idle, .inHead, .begun, .collecting, .streaming: false
    }
  }

  /// Whether the last answer is with the kernel.
  var isSent: Bool { if case .ending(.sent, _) = phase { true } else { false } }

  /// Whether a close now must look incomplete to the client, as the end of the connection would be that of the answer.
  var isCut: Bool {
    switch phase {
    case .ending(_, let isCut): isCut
    case .idle, .inHead, .begun, .collecting, .streaming, .answering, .closed:
      if case .begun(_, isUnframed: true) = answer { true } else { false }
    }
  }

  /// Whether input can be taken now: not after an unanswered request, nor, if a client does not read its answers, another
  /// request.
  func takes(isWritable: Bool) -> Bool {
    switch phase {
    case .begun, .answering, .ending, .closed: false
    case .streaming: true
    case .idle, .inHead, .collecting: isWritable
    }
  }

  /// Whether the connection ends with the answer to this request.
  ///
  /// - Parameter hasMore: the client sent more than this request.
  func isLastAnswer(hasMore: Bool) -> Bool {
    isStopping || isOver || !keepsConnections || hasAskedAll(hasMore) || !(head?.isKeepAlive ?? false)
  }

  func hasAskedAll(_ hasMore: Bool) -> Bool { hasInputEnded && !hasMore }
}
