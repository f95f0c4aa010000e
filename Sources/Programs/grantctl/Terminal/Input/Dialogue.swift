import BrokerAPI

/// Several questions to the person at the terminal, one after the other: one thread reads for all of them.
struct Dialogue {
  private enum Typed: Sendable {
    case line(String)
    case end
    case interrupted
  }

  private let shell: Shell
  private let feed: AsyncStream<Typed>.Continuation
  private var iterator: AsyncStream<Typed>.Iterator
  private var interrupting: Task<Void, Never>?
  /// Reads from the first question on: a read cannot be cancelled.
  private var reading: Task<Void, Never>?

  init(_ shell: Shell) {
    self.shell = shell
    let (typed, feed) = AsyncStream.makeStream(of: Typed.self)
    self.feed = feed
    iterator = typed.makeAsyncIterator()
  }

  /// Lines and interrupts after this are for others.
  func end() {
    interrupting?.cancel()
    reading?.cancel()
  }

  /// Asks for a secret, which does not show.
  mutating func secret(
    _ what: String, prompt: String, hints: [String] = []
  ) async throws(Failure) -> SecretText {
    // First: a user who interrupts must find the terminal unchanged.
    noticeInterrupts()
    guard shell.terminal.canAsk, let restore = shell.terminal.hideEcho() else {
      throw Failure(.usage, "standard input is a terminal that would show the \(what)", hints: hints)
    }
    defer { restore() }
    guard let line = try await line(prompt) else { throw Failure(.usage, "no \(what) was given", hints: hints) }
    // The line feed that ended it was not shown.
    shell.terminal.write(.err, "\n")
    guard line.utf8.count < SecretInput.longestTyped else {
      throw Failure(.usage, "the \(what) is too long to be typed", hints: hints)
    }
    return try SecretInput(shell: shell, what: what).parse(line)
  }

  /// A new passphrase of at least `shortest` characters, each one a byte of ASCII; twice, since it does not show.
  mutating func newPassphrase(
    _ prompt: String, shortest: Int, hints: [String]
  ) async throws(Failure) -> SecretText {
    let passphrase = try await secret("passphrase", prompt: prompt, hints: hints)
    // Exposed to be measured, and compared with the next input.
    guard passphrase.exposed.utf8.count >= shortest else {
      throw Failure(
        .usage, "the passphrase is shorter than \(shortest) characters",
        hints: ["Run the command again with a longer one, such as four random words."])
    }
    guard try await secret("passphrase", prompt: "The same again: ", hints: hints) == passphrase else {
      throw Failure(
        .usage, "the two passphrases are not the same",
        hints: ["Run the command again, and type the same passphrase twice."])
    }
    return passphrase
  }

  /// Only `y` and `yes` are yes.
  mutating func agrees(_ question: String) async throws(Failure) -> Bool {
    noticeInterrupts()
    guard let answer = try await line("\(question) [y/N] ") else {
      throw Failure(.usage, "standard input ended before an answer")
    }
    return ["y", "yes"].contains(answer.lowercased().filter { !$0.isWhitespace })
  }

  /// Nil: standard input has ended.
  private mutating func line(_ prompt: String) async throws(Failure) -> String? {
    shell.terminal.ask(prompt)
    read()
    switch await iterator.next() {
    case .line(let line): return line
    case .end, nil: return nil
    case .interrupted:
      shell.terminal.note("")
      throw Failure(.interrupted, "interrupted")
    }
  }

  private mutating func noticeInterrupts() {
    guard interrupting == nil else { return }
    let interrupts = shell.terminal.interrupts()
    interrupting = Task { [feed] in for await _ in interrupts { feed.yield(.interrupted) } }
  }

  private mutating func read() {
    guard reading == nil else { return }
    let lines = shell.terminal.lines()
    reading = Task { [feed] in
      for await line in lines { feed.yield(.line(line)) }
      feed.yield(.end)
    }
  }
}
