import BrokerSocket

/// What a command has around it: streams, environment, clock, person. Tests bring their own.
struct Terminal: Sendable {
  enum Stream: Sendable { case out, err }

  struct Screen: Sendable, Equatable {
    var columns: Int
    var rows: Int
  }

  enum BoundedInput: Sendable, Equatable {
    case bytes([UInt8])
    case tooLong
    /// Not complete in time.
    case stopped
  }

  /// Written at once: nothing is held back.
  var write: @Sendable (Stream, String) -> Void
  /// Bytes for standard output, as they are.
  var writeBytes: @Sendable ([UInt8]) -> Void = { _ in }
  var isOutTTY = false
  var isErrTTY = false
  var isInTTY = false
  /// Somebody sits at standard input and may be asked.
  var canAsk = false
  /// Columns of the terminal that standard output is; nil where it is none.
  var width: Int?
  /// The terminal that standard error is; nil where it is none.
  var screen: Screen?
  var files = TerminalFiles()
  var programs: TerminalPrograms
  var environment: [String: String] = [:]
  var uid: UInt32 = 0
  var timeZone = LocalTime.ofProcess
  /// Unix seconds.
  var now: @Sendable () -> Int64
  /// The lines of standard input.
  var lines: @Sendable () -> AsyncStream<String>
  /// All of standard input; nil where it is longer than so many bytes.
  var input: @Sendable (Int) async -> [UInt8]? = { _ in nil }
  /// Standard input until it is complete, of at most so many bytes, and within a time.
  var inputUntil: @Sendable (Int, Duration?, @escaping @Sendable ([UInt8]) -> Bool) async -> BoundedInput = { _, _, _ in
    .bytes([])
  }
  /// What is typed shows no more, until the function that this returns is called; nil: that is not possible.
  var hideEcho: @Sendable () -> (@Sendable () -> Void)? = { nil }
  /// The socket of the system's broker.
  var systemSocket = SocketChoice.systemPath
  var users = UserNames()
  /// Which hints may name systemctl.
  var services = ServiceManagers()
  /// The path that this program is called by.
  var ownPath = "/usr/bin/grantctl"
  /// The connection on which the front sent the request of this command; once.
  var leftConnection: @Sendable () -> Int32? = { nil }
  /// One element for each Ctrl-C or SIGTERM from now on; before the first call they end the process.
  var interrupts: @Sendable () -> AsyncStream<Void>
  var machine = Machine.blind
  /// How long a person waits before they are told for what.
  var quietTime = Duration.seconds(1)

  /// Colour is for people, unless they asked for none (no-color.org).
  var usesColour: Bool { isOutTTY && allowsColour }

  /// Where it goes to a terminal.
  var allowsColour: Bool { (environment["NO_COLOR"] ?? "").isEmpty && environment["TERM"] != "dumb" }

  /// A line that is drawn again and again.
  var canRedraw: Bool { isErrTTY && environment["TERM"] != "dumb" }

  func print(_ lines: [String]) { write(.out, lines.map { $0 + "\n" }.joined()) }

  /// Writes a sentence to standard output. On a terminal it is wrapped; for programs it stays one line.
  func print(_ sentence: String) {
    guard let width, SafeText.width(sentence) > width else { return printWhole(sentence) }
    print(SafeText.wrapped(sentence, columns: width))
  }

  /// Writes text to copy, or of a program, to standard output: no line of it is broken.
  func printWhole(_ text: String) { write(.out, text + "\n") }

  /// Writes a sentence and the command that it introduces to standard output. The command has its own line if a terminal is
  /// too narrow for both.
  func print(_ sentence: String, command: String) {
    let line = SafeText.line("\(sentence) \(command)")
    guard let width, SafeText.width(line) > width else { return printWhole(line) }
    print(SafeText.line(sentence))
    printWhole("  " + SafeText.line(command))
  }

  /// Writes a question to standard error, whose answer is typed behind it. On a terminal it is wrapped.
  func ask(_ question: String) {
    guard isErrTTY, let columns = screen?.columns, SafeText.width(question) > columns else {
      return write(.err, question)
    }
    write(.err, SafeText.wrapped(question, columns: max(20, columns - 1)).joined(separator: "\n") + " ")
  }

  /// Writes lines to standard error. On a terminal sentences are wrapped; what begins with a space, or has a word that is
  /// longer than a line, such as an address, stays as it is.
  func note(_ text: String) {
    guard isErrTTY, let columns = screen?.columns, columns >= 24 else { return write(.err, text + "\n") }
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init).flatMap { line in
      let isLong = SafeText.width(line) > columns && !line.hasPrefix(" ")
      return isLong && line.split(separator: " ").allSatisfy { SafeText.width(String($0)) <= columns }
        ? SafeText.wrapped(line, columns: columns) : [line]
    }
    write(.err, lines.joined(separator: "\n") + "\n")
  }

  /// Writes lines that are drawn, such as those of a QR code, to standard error: no line of them is broken.
  func noteWhole(_ lines: [String]) { write(.err, lines.map { $0 + "\n" }.joined()) }

  /// Writes a step, with its number before it, to standard error. On a terminal it is wrapped beside the number.
  func note(_ step: String, after number: String) {
    guard isErrTTY, let columns = screen?.columns, SafeText.width(number + step) > columns else {
      return note(number + step)
    }
    let indent = String(repeating: " ", count: number.count)
    let lines = SafeText.wrapped(step, columns: max(20, columns - number.count))
    write(.err, lines.enumerated().map { ($0 == 0 ? number : indent) + $1 + "\n" }.joined())
  }
}
