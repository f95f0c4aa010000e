import Glibc
import Synchronization

/// Standard input and Ctrl-C of a command that asks, signs in and asks again: one reader for all of it, since a read cannot
/// be cancelled and two readers would take lines from each other.
final class SharedInput: Sendable {
  /// Lines that were typed before a question, at most.
  private static let mostWaiting = 64
  /// How long the rest of pasted text takes to arrive.
  private static let pasting = Duration.milliseconds(50)

  private struct State {
    var isReading = false
    var isOver = false
    var waiting: [String] = []
    var asking: CheckedContinuation<String?, Never>?
    var stream: (id: UInt64, feed: AsyncStream<String>.Continuation)?
    var interrupts: (id: UInt64, feed: AsyncStream<Void>.Continuation)?
    var nextID: UInt64 = 0
    var restore: (@Sendable () -> Void)?
  }

  private let terminal: Terminal
  private let state = Mutex(State())
  /// What an interrupt reports that no login takes.
  private let farewell: String

  init(_ terminal: Terminal, farewell: String) {
    self.terminal = terminal
    self.farewell = farewell
    guard terminal.canAsk else { return }
    let interrupts = terminal.interrupts()
    Task { for await _ in interrupts { self.interrupted() } }
  }

  /// The terminal for commands that run inside: they read through this.
  var shared: Terminal {
    guard terminal.canAsk else { return terminal }
    var inner = terminal
    inner.lines = { self.lines() }
    inner.interrupts = { self.interruptions() }
    return inner
  }

  // MARK: Questions

  /// Nil: standard input has ended.
  func line(_ prompt: String) async -> String? {
    terminal.ask(prompt)
    read()
    return await withCheckedContinuation { asking in
      let next: String?? = state.withLock { state in
        if !state.waiting.isEmpty { return state.waiting.removeFirst() }
        if state.isOver { return .some(nil) }
        state.asking = asking
        return nil
      }
      if let next { asking.resume(returning: next) }
    }
  }

  /// A line that does not show; nil: standard input has ended, or the terminal would show it.
  func secretLine(_ prompt: String) async -> String? {
    guard let restore = terminal.hideEcho() else { return nil }
    state.withLock { $0.restore = restore }
    defer {
      restore()
      state.withLock { $0.restore = nil }
      // The newline that was typed did not show.
      terminal.write(.err, "\n")
    }
    return await line(prompt)
  }

  /// Removes lines that arrived behind the last one, as those of pasted text do. Whether there were any.
  func dropsMore() async -> Bool {
    try? await Task.sleep(for: Self.pasting)
    return state.withLock { state in
      defer { state.waiting = [] }
      return !state.waiting.isEmpty
    }
  }

  // MARK: Sources

  private func read() {
    let isFirst = state.withLock { state in
      defer { state.isReading = true }
      return !state.isReading
    }
    guard isFirst else { return }
    let lines = terminal.lines()
    Task {
      for await line in lines { self.typed(line) }
      self.ended()
    }
  }

  private func typed(_ line: String) {
    let asking: CheckedContinuation<String?, Never>? = state.withLock { state in
      if let asking = state.asking {
        state.asking = nil
        return asking
      }
      if let stream = state.stream {
        stream.feed.yield(line)
      } else if state.waiting.count < Self.mostWaiting {
        state.waiting.append(line)
      }
      return nil
    }
    asking?.resume(returning: line)
  }

  private func ended() {
    let asking: CheckedContinuation<String?, Never>? = state.withLock { state in
      state.isOver = true
      state.stream?.feed.finish()
      defer { state.asking = nil }
      return state.asking
    }
    asking?.resume(returning: nil)
  }

  private func lines() -> AsyncStream<String> {
    let (stream, feed) = AsyncStream.makeStream(of: String.self)
    state.withLock { state in
      for line in state.waiting { feed.yield(line) }
      state.waiting = []
      if state.isOver { return feed.finish() }
      let id = state.nextID
      state.nextID += 1
      state.stream = (id, feed)
      feed.onTermination = { _ in
        self.state.withLock { if $0.stream?.id == id { $0.stream = nil } }
      }
    }
    read()
    return stream
  }

  private func interruptions() -> AsyncStream<Void> {
    let (stream, feed) = AsyncStream.makeStream(of: Void.self)
    state.withLock { state in
      let id = state.nextID
      state.nextID += 1
      state.interrupts = (id, feed)
      feed.onTermination = { _ in
        self.state.withLock { if $0.interrupts?.id == id { $0.interrupts = nil } }
      }
    }
    return stream
  }

  /// A login ends itself at the broker; everywhere else nothing is left to do.
  private func interrupted() {
    let taken = state.withLock { state in
      state.interrupts?.feed.yield()
      return state.interrupts != nil
    }
    guard !taken else { return }
    state.withLock { $0.restore }?()
    terminal.note("\n\(farewell)")
    exit(ExitStatus.interrupted.rawValue)
  }
}
