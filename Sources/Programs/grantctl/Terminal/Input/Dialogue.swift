import BrokerAPI

/// Several questions to the person at the terminal, one after the other: one thread reads for all of them.
struct Dialogue {
  private enum Typed: Sendable {
    case line(String)
    case end
    case interrupted
  }

  private let shell: Shell
  private let interrupts: AsyncStream<Void>
  private let typed: AsyncStream<Typed>
  private let feed: AsyncStream<Typed>.Continuation
  private var iterator: AsyncStream<Typed>.Iterator
  /// Reads from the first question on, and lives as long as the process: a read cannot be cancelled.
  private var reading: [Task<Void, Never>] = []

  init(_ shell: Shell) {
    self.shell = shell
    // First: whoever interrupts must find the terminal as it was.
    interrupts = shell.terminal.interrupts()
    (typed, feed) = AsyncStream.makeStream(of: Typed.self)
    iterator = typed.makeAsyncIterator()
  }

  /// What is typed does not show.
  mutating func secret(_ what: String, prompt: String) async throws(Failure) -> SecretText {
    guard shell.terminal.canAsk, let restore = shell.terminal.hideEcho() else {
      throw Failure(.usage, "standard input is a terminal that would show the \(what)")
    }
    defer { restore() }
    let line = try await line(prompt)
    // The line feed that ended it was not shown.
    shell.terminal.write(.err, "\n")
    guard line.utf8.count < SecretInput.longestTyped else {
      throw Failure(.usage, "the \(what) is too long to be typed")
    }
    return try SecretInput(shell: shell, what: what).parse(line)
  }

  /// Only `y` and `yes` are yes.
  mutating func agrees(_ question: String) async throws(Failure) -> Bool {
    let answer = try await line("\(question) [y/N] ")
    return ["y", "yes"].contains(answer.lowercased().filter { !$0.isWhitespace })
  }

  private mutating func line(_ prompt: String) async throws(Failure) -> String {
    shell.terminal.ask(prompt)
    read()
    switch await iterator.next() {
    case .line(let line): return line
    case .end, nil: throw Failure(.usage, "standard input ended before an answer")
    case .interrupted:
      shell.terminal.note("")
      throw Failure(.interrupted, "interrupted")
    }
  }

  private mutating func read() {
    guard reading.isEmpty else { return }
    let lines = shell.terminal.lines()
    reading = [
      Task { [feed] in
        for await line in lines { feed.yield(.line(line)) }
        feed.yield(.end)
      },
      Task { [feed, interrupts] in for await _ in interrupts { feed.yield(.interrupted) } },
    ]
  }
}
