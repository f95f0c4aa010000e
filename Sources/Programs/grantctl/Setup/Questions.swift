import BrokerAPI

/// The questions of a command, each with a flag that answers it: without a terminal nothing is asked.
struct Questions: Sendable {
  /// Wrong answers to one question.
  private static let attempts = 3

  let shell: Shell
  let input: SharedInput
  /// The command, for hints.
  let command: String

  var canAsk: Bool { shell.terminal.canAsk && !shell.isJSON }

  /// A line; an empty one is the standard answer.
  ///
  /// - Parameter isOptional: the end of standard input is the standard answer too.
  func text(
    _ question: String, standard: String? = nil, isOptional: Bool = false, flag: String
  ) async throws(Failure) -> String {
    try demand(question, flag)
    let prompt = question + (standard.map { " [\($0)]" } ?? "") + ": "
    for _ in 0..<Self.attempts {
      guard let line = await input.line(SafeText.line(prompt)) else {
        guard isOptional, let standard else { throw ended() }
        // The next output is not behind the question.
        shell.terminal.note("")
        return standard
      }
      let answer = line.trimmed
      if !answer.isEmpty { return answer }
      if let standard { return standard }
    }
    throw Failure(.usage, "there was no answer: \(question)", hints: [hint(flag)])
  }

  /// A line, as `parse` accepts it. After one that it refuses, the reason is shown and the question is repeated.
  func answer<Answer>(
    _ question: String, flag: String, parse: (String) throws(Failure) -> Answer
  ) async throws(Failure) -> Answer {
    try demand(question, flag)
    var refusal = Failure(.usage, "there was no answer: \(question)")
    for attempt in 0..<Self.attempts {
      if attempt > 0 { show(refusal) }
      guard let line = await input.line(SafeText.line("\(question): ")) else { throw ended() }
      do throws(Failure) {
        return try parse(line.trimmed)
      } catch {
        refusal = error
      }
    }
    refusal.hints.append(hint(flag))
    throw refusal
  }

  /// Nil: the user gave none.
  func secret(_ what: String, isRequired: Bool, flag: String) async throws(Failure) -> SecretText? {
    try demand(what, flag)
    let suffix = isRequired ? "hidden" : "hidden; none: Enter"
    for _ in 0..<Self.attempts {
      guard let line = await input.secretLine("\(what.prefix(1).uppercased())\(what.dropFirst()) (\(suffix)): ") else {
        throw ended()
      }
      let hadMore = await input.dropsMore()
      if hadMore {
        shell.terminal.note("The pasted text has several lines: the \(what) is one line.")
        continue
      }
      if line.trimmed.isEmpty, !isRequired { return nil }
      do throws(Failure) {
        return try SecretInput(shell: shell, what: what).parse(line)
      } catch {
        show(error)
      }
    }
    throw Failure(.usage, "there was no usable \(what)", hints: [hint(flag)])
  }

  /// An empty line is the standard answer.
  func agrees(_ question: String, standard: Bool) async throws(Failure) -> Bool {
    guard let line = await input.line("\(SafeText.line(question)) [\(standard ? "Y/n" : "y/N")] ") else {
      throw ended()
    }
    switch line.trimmed.lowercased() {
    case "": return standard
    case "y", "yes": return true
    default: return false
    }
  }

  private func show(_ refusal: Failure) {
    let text = ([refusal.message] + refusal.hints).joined(separator: ". ")
    shell.terminal.note(SafeText.line(text.prefix(1).uppercased() + text.dropFirst()))
  }

  private func demand(_ question: String, _ flag: String) throws(Failure) {
    guard !canAsk else { return }
    throw Failure(
      .usage, "without a terminal nothing is asked, and this is missing: \(question)", hints: [hint(flag)])
  }

  private func hint(_ flag: String) -> String { "Give it: `\(command)\(flag.isEmpty ? "" : " \(flag)")`" }

  private func ended() -> Failure {
    Failure(.usage, "standard input ended before an answer", hints: ["Run the same command again: it continues."])
  }
}
