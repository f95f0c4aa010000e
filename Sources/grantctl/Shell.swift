import BrokerAPI
import UnixSocket

/// What a command works with: the terminal, and what every command was told.
struct Shell: Sendable {
  struct Settings: Sendable {
    var wish = SocketChoice.Wish()
    var isJSON = false
    /// Seconds; nil: the command's own.
    var timeout: Double?
  }

  /// For an answer, where the person does not say.
  static let patience = Duration.seconds(90)
  /// What a broker that was told its deadline may be late.
  private static let grace = Duration.seconds(5)
  private static let connecting = Duration.seconds(10)

  let terminal: Terminal
  let settings: Settings

  var isJSON: Bool { settings.isJSON }
  var now: Int64 { terminal.now() }

  var choice: SocketChoice {
    SocketChoice(settings.wish, environment: terminal.environment, uid: terminal.uid, exists: terminal.fileExists)
  }

  func connect() async throws(Failure) -> SocketClient {
    let choice = choice
    do throws(SocketClientError) {
      return try await SocketClient.connect(path: choice.path, timeout: Self.connecting)
    } catch {
      if case .notRunning = error { throw choice.notRunning }
      throw Failure(error)
    }
  }

  /// Calls one method on a connection of its own.
  func ask<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params
  ) async throws(Failure) -> Answer<Method> {
    try await ask(method, params, on: connect())
  }

  func ask<Method: RPCMethod>(
    _ method: Method.Type, _ params: Method.Params, on client: SocketClient
  ) async throws(Failure) -> Answer<Method> {
    Answer(json: try await ask(Method.name, JSON(encoding: params), on: client))
  }

  func ask(_ method: String, _ params: JSON?, on client: SocketClient) async throws(Failure) -> JSON {
    // Where the broker keeps the deadline its answer is the better one.
    let keepsDeadline = params?["timeout"] != nil
    let limit = settings.timeout.map { Duration.seconds($0) + (keepsDeadline ? Self.grace : .zero) }
    do throws(SocketClientError) {
      return try await client.call(method: method, params: params, timeout: limit ?? Self.patience)
    } catch {
      throw Failure(error)
    }
  }
}

/// A method's result: as it came, and as its type.
struct Answer<Method: RPCMethod>: Sendable {
  let json: JSON

  func value() throws(Failure) -> Method.Result {
    do throws(ParamsError) {
      return try json.decode(Method.Result.self, root: "result")
    } catch {
      throw Failure(SocketClientError.malformed(error.description))
    }
  }
}

// MARK: What is printed

extension Shell {
  /// One JSON object: over several lines for people, on one for programs.
  func say(_ json: JSON) {
    terminal.say(SafeText.json(terminal.isOutTTY ? json.pretty() : Self.line(json)))
  }

  /// On one line in any case.
  static func line(_ json: JSON) -> String { SafeText.json(String(decoding: json.serialized(), as: UTF8.self)) }

  func say(_ table: Table) {
    terminal.say(table.lines(width: terminal.width, colour: terminal.usesColour))
  }

  func say(_ fields: Fields) { terminal.say(fields.lines(colour: terminal.usesColour)) }

  func report(_ failure: Failure) {
    if isJSON {
      terminal.note(SafeText.json(terminal.isErrTTY ? failure.json.pretty() : Self.line(failure.json)))
      return
    }
    let message = SafeText.lines(failure.message)
    terminal.note("grantctl: " + message.joined(separator: "\n  "))
    for hint in failure.hints.flatMap(SafeText.lines) { terminal.note("  " + adapted(hint)) }
  }

  /// Brings an address before the person; whether a browser opened.
  func show(_ url: String, to purpose: String, inBrowser isWanted: Bool) -> Bool {
    let choice = Browser.choose(
      for: url, isWanted: isWanted, environment: terminal.environment, find: terminal.find)
    let address = SafeText.line(url)
    if case .open(let command) = choice, terminal.launch(command) {
      terminal.note("Your browser opens to \(purpose). If it does not, open this address:\n\n\(address)\n")
      return true
    }
    terminal.note("To \(purpose), open this address in a browser:")
    // With --json standard output is for the result alone.
    if isJSON { terminal.note(address) } else { terminal.say(address) }
    return false
  }

  /// A command for people to copy that reaches the same broker: `grantctl token work --system`.
  func command(_ words: String) -> String { "grantctl \(words)\(settings.wish.options)" }

  /// A hint whose commands reach the same broker.
  func adapted(_ hint: String) -> String {
    let options = settings.wish.options
    guard !options.isEmpty else { return hint }
    let parts = hint.split(separator: "`", omittingEmptySubsequences: false)
    return parts.enumerated().map { index, part in
      let isCommand = index % 2 == 1 && index < parts.count - 1 && part.hasPrefix("grantctl ")
      return isCommand ? part + options : String(part)
    }.joined(separator: "`")
  }
}
