import AsyncClient
import BlockingClient
import BrokerAPI

/// Asks a person about each release that waits, one after another.
struct Approver: Sendable {
  let shell: Shell
  let client: SocketClient

  private var terminal: Terminal { shell.terminal }

  private enum Input: Sendable {
    case line(String)
    case inputEnded
    case waiting(ReleaseView)
    case ended(ReleaseView)
    case disconnected
    case interrupted
  }

  /// About these alone. An empty line leaves one waiting.
  func ask(_ releases: [ReleaseView]) async throws(Failure) {
    try await run(releases, stays: false)
  }

  /// About all that come, until it is interrupted.
  func stay() async throws(Failure) {
    let types = [EventType.releaseWaiting.rawValue, EventType.releaseEnded.rawValue]
    _ = try await shell.ask(EventsSubscribe.self, .init(events: types), on: client)
    // After that: what came in between is in both.
    let waiting = try await shell.ask(ReleaseList.self, .init(), on: client).value().waiting
    if terminal.isErrTTY, !shell.isJSON { terminal.note("Waiting for requests; Ctrl-C ends.") }
    try await run(waiting, stays: true)
  }

  private func run(_ first: [ReleaseView], stays: Bool) async throws(Failure) {
    let isAsking = terminal.canAsk && !shell.isJSON
    let (inputs, tasks) = inputs(isAsking: isAsking)
    defer { for task in tasks { task.cancel() } }
    var queue: [ReleaseView] = []
    func add(_ release: ReleaseView) {
      guard !queue.contains(where: { $0.id == release.id }) else { return }
      queue.append(release)
      if !isAsking { announce(release) } else if queue.count == 1 { question(release) }
    }
    // What was typed may have been meant for the one that ended just then: the next one's answer must name it.
    var unasked: String?
    for release in first { add(release) }
    for await input in inputs {
      switch input {
      case .waiting(let release): if stays { add(release) }
      case .ended(let release):
        guard let place = queue.firstIndex(where: { $0.id == release.id }) else { continue }
        queue.remove(at: place)
        if isAsking, place == 0 {
          terminal.note("\n\(SafeText.line(release.id)) no longer waits: \(Self.description(of: release.outcome)).")
          unasked = queue.first?.id
          if let next = queue.first { question(next) }
        }
      case .line(let typed):
        guard let current = queue.first else { continue }
        guard let line = unasked == current.id ? Self.named(current.id, in: typed) : typed else {
          terminal.note(
            "The question changed while you typed. For this one type “y \(SafeText.line(current.id))”, or n.")
          prompt(current)
          continue
        }
        unasked = nil
        guard try await handle(line, current) else { continue }
        queue.removeFirst()
        if let next = queue.first { question(next) }
      case .inputEnded: if isAsking { return }
      case .disconnected: throw Failure(SocketClientError.disconnected)
      case .interrupted:
        if isAsking { terminal.note("") }
        throw .reported(.interrupted)
      }
      if !stays, queue.isEmpty { return }
    }
  }

  /// The line without the name that it must have; nil: it has it not. What leaves it waiting needs none, nor does a plain
  /// no, which can be asked again.
  private static func named(_ id: String, in line: String) -> String? {
    if Approval(typed: line) == .no(nil) { return line }
    var words = line.split(whereSeparator: \.isWhitespace).map(String.init)
    if words.isEmpty { return line }
    guard let place = words.firstIndex(of: id) else { return nil }
    words.remove(at: place)
    return words.joined(separator: " ")
  }

  /// False: it is asked again.
  private func handle(_ line: String, _ release: ReleaseView) async throws(Failure) -> Bool {
    guard !line.allSatisfy(\.isWhitespace) else { return true }
    guard let approval = Approval(typed: line) else {
      terminal.note(
        "Type y or n, with a time (at most 1h) to apply it to equal requests: “y 10m”. Enter skips it.")
      prompt(release)
      return false
    }
    do throws(Failure) {
      if !(try await approval.send(release.id, shell, on: client)) {
        terminal.note("\(SafeText.line(release.id)) no longer waits.")
      }
    } catch {
      // One that cannot be answered keeps the others from nothing.
      guard error.status != .notRunning else { throw error }
      shell.report(error)
    }
    return true
  }

  // MARK: What is printed

  private func announce(_ release: ReleaseView) {
    if shell.isJSON { return terminal.printWhole(Shell.line(JSON(encoding: release))) }
    shell.print(ApproveCommand.table([release], shell))
  }

  private func question(_ release: ReleaseView) {
    let table = ApproveCommand.table([release], shell)
    let isColoured = terminal.isErrTTY && terminal.allowsColour
    for line in table.lines(width: terminal.screen?.columns ?? 80, colour: isColoured) { terminal.note(line) }
    prompt(release)
  }

  private func prompt(_ release: ReleaseView) {
    terminal.ask("Allow \(SafeText.line(release.id))? [y/n, y 10m, Enter: later] ")
  }

  private static func description(of outcome: String?) -> String {
    switch outcome {
    case "approved": "it was allowed"
    case "denied": "it was refused"
    case "timed_out": "its time is over"
    case "caller_gone": "the program hung up"
    case "no_longer_needed": "a rule allows it now"
    case "shutting_down": "the daemon stops"
    default: SafeText.line(outcome ?? "it ended")
    }
  }

  private func inputs(isAsking: Bool) -> (AsyncStream<Input>, [Task<Void, Never>]) {
    let (stream, feed) = AsyncStream.makeStream(of: Input.self)
    let interrupts = terminal.interrupts()
    var tasks = [
      Task { for await _ in interrupts { feed.yield(.interrupted) } },
      Task {
        for await notification in client.notifications where notification.method == Event.method {
          guard let release = try? notification.params["release"]?.decode(ReleaseView.self) else { continue }
          feed.yield(release.outcome == nil ? .waiting(release) : .ended(release))
        }
        feed.yield(.disconnected)
      },
    ]
    if isAsking {
      let lines = terminal.lines()
      tasks.append(
        Task {
          for await line in lines { feed.yield(.line(line)) }
          feed.yield(.inputEnded)
        })
    }
    return (stream, tasks)
  }
}
