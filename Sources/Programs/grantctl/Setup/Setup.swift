import BrokerAPI

/// The steps of `setup`. Each finds its result if an earlier run made it, so that a run continues the one before.
struct Setup {
  /// One line of the transcript.
  struct Step {
    enum Result: String { case ok, attention, failed }

    var name: String
    var result: Result
    var message: String
  }

  let given: SetupCommand
  /// For the commands that run inside.
  var shell: Shell
  let outer: Shell
  let questions: Questions
  private(set) var steps: [Step] = []
  /// The provider that this run added.
  var addedProvider: String?

  init(_ given: SetupCommand, _ shell: Shell) {
    self.given = given
    outer = shell
    let input = SharedInput(
      shell.terminal, farewell: "Interrupted. The same command continues from here.")
    var terminal = input.shared
    // The result is one JSON object; everything else goes to standard error.
    if shell.isJSON { terminal.write = { _, text in shell.terminal.write(.err, text) } }
    var settings = shell.settings
    settings.isJSON = false
    self.shell = Shell(terminal: terminal, settings: settings)
    let words = ["setup"] + [given.provider, given.account].compactMap(\.self).map(ShellWord.quoted)
    questions = Questions(shell: shell, input: input, command: shell.command(words.joined(separator: " ")))
  }

  var terminal: Terminal { shell.terminal }

  mutating func run() async throws(Failure) {
    let status = try await broker()
    try await checkName()
    let provider = try await provider(status)
    guard !given.providerOnly else {
      if outer.isJSON { outer.print(["provider": .string(provider), "steps": transcript]) }
      return
    }
    try await examine(provider)
    let account = try await signIn(at: provider)
    try await configure(account)
    guard outer.isJSON else {
      terminal.print("Get a token:")
      return terminal.printWhole(SafeText.line("  \(shell.command("token \(ShellWord.quoted(account))"))"))
    }
    outer.print([
      "provider": .string(provider), "account": .string(account), "steps": transcript,
    ])
  }

  /// Before anything is registered for the account, the broker says whether it can have that name.
  private func checkName() async throws(Failure) {
    guard let account = given.account else { return }
    do throws(Failure) {
      _ = try await shell.ask(AccountGet.self, .init(account: account))
    } catch {
      if error.status == .usage { throw error }
    }
  }

  // MARK: The transcript

  private var transcript: JSON {
    .array(
      steps.map { ["step": .string($0.name), "result": .string($0.result.rawValue), "message": .string($0.message)] })
  }

  mutating func done(_ name: String, _ message: String) { record(.init(name: name, result: .ok, message: message)) }
  mutating func mention(_ name: String, _ message: String) {
    record(.init(name: name, result: .attention, message: message))
  }
  mutating func failed(_ name: String, _ message: String) {
    record(.init(name: name, result: .failed, message: message))
  }

  private var columns: Int { max(24, terminal.width ?? terminal.screen?.columns ?? 80) }

  /// A sentence between the steps.
  func printWrapped(_ text: String) { terminal.print(SafeText.wrapped(SafeText.line(text), columns: columns)) }

  private mutating func record(_ step: Step) {
    steps.append(step)
    let mark =
      switch step.result {
      case .ok: "✓"
      case .attention: "!"
      case .failed: "✗"
      }
    let lines = SafeText.wrapped(SafeText.line("\(step.name): \(step.message)"), columns: columns - 2)
    terminal.print(lines.enumerated().map { ($0 == 0 ? mark : " ") + " " + $1 })
  }
}
