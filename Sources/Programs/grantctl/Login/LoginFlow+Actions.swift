import AsyncClient
import BlockingClient
import BrokerAPI

/// What comes next in a login.
enum LoginStep: Sendable {
  case done(JSON)
  case wait
  case ask(LoginQuestion)
}

/// What the command line answers ahead, and what the broker asked last.
struct LoginAnswers: Sendable {
  /// The ID of a session, ``PresetAnswers/oldest`` or ``PresetAnswers/offline``.
  var session: String?
  var attributes: [String: JSON] = [:]
  /// The person has answered, with none maybe.
  fileprivate var hasAttributes = false
  /// Nobody can be asked, and the person has said that the login shall go on: once.
  var triesAgain = false
  /// The login as the broker told it last.
  fileprivate(set) var last: JSON = .null
  /// Sessions that were replaced. Who finds one again has a provider that ends it later.
  fileprivate var replaced: Set<String> = []

  init(session: String? = nil, attributes: [String: JSON] = [:]) {
    self.session = session
    self.attributes = attributes
  }

  /// Good once: what was refused would be refused again.
  fileprivate mutating func consumeAttributes() -> [String: JSON]? {
    defer { (attributes, hasAttributes) = ([:], false) }
    return attributes.isEmpty && !hasAttributes ? nil : attributes
  }

  fileprivate mutating func consumeTry() -> Bool {
    defer { triesAgain = false }
    return triesAgain
  }

  /// The session to replace; nil where a person has to choose, after the words.
  fileprivate mutating func consumeSession(of sessions: [SessionView]) -> (id: String?, words: String?) {
    guard let wish = session else { return (nil, nil) }
    // A word is good for each round, an ID for one.
    if ![PresetAnswers.oldest, PresetAnswers.offline].contains(wish) { session = nil }
    switch sessions.chosen(by: wish, besides: replaced) {
    case .success(let id):
      replaced.insert(id)
      return (id, nil)
    case .failure(let objection): return (nil, objection.text)
    }
  }
}

// A login in which the person has to do something more than to sign in.
extension LoginFlow {
  /// Nobody has so many sessions that each has to be replaced.
  private static let mostRounds = 32

  /// What to do with what the broker said of a login: it is done, or what it needs is answered or asked.
  func answer(_ result: JSON, _ answers: inout LoginAnswers) async throws(Failure) -> LoginStep {
    var result = result
    for _ in 0..<Self.mostRounds {
      answers.last = result
      switch result["state"]?.string {
      case LoginState.completed.rawValue: return .done(result)
      case LoginState.pending.rawValue: return .wait
      default: break
      }
      let id = result["login_id"]?.string ?? ""
      guard let action = result["action"].flatMap({ try? $0.decode(LoginActionView.self) }) else {
        throw unknown(result["action"]?["message"]?.string, id)
      }
      let outcome: Sent
      switch action.kind {
      case .sessionLimit:
        let sessions = action.sessions ?? []
        if sessions.isEmpty {
          guard answers.consumeTry() else { return try ask(.again, action, answers) }
          outcome = try await send(.init(login_id: id))
          break
        }
        let (session, words) = answers.consumeSession(of: sessions)
        guard let session else {
          if let words { terminal.note(words) }
          return try ask(.session(sessions), action, answers)
        }
        outcome = try await send(.init(login_id: id, session_id: session))
      case .registration:
        guard let attributes = answers.consumeAttributes() else {
          return try ask(.registration(RegistrationForm()), action, answers)
        }
        outcome = try await send(.init(login_id: id, attributes: attributes))
        if case .rejected(let error) = outcome { return try askAgain(error, attributes, id, &answers) }
      }
      guard case .answered(let next) = outcome else { throw unknown(nil, id) }
      result = next
    }
    throw Failure(
      .failure, "the provider asks for the same again and again", hints: [continuation(login: answers.last)])
  }

  /// A line that was typed in answer to a question.
  func handle(
    _ line: String, for question: LoginQuestion, _ answers: inout LoginAnswers
  ) async throws(Failure) -> LoginStep {
    var question = question
    switch question.answer(line) {
    case .again(let note):
      if let note { terminal.note(note) }
      return .ask(question)
    case .session(let session):
      answers.session = session
    case .attributes(let attributes):
      (answers.attributes, answers.hasAttributes) = (attributes, true)
    case .retry: answers.triesAgain = true
    }
    return try await answer(answers.last, &answers)
  }

  // MARK: Asking

  private func ask(
    _ question: LoginQuestion, _ action: LoginActionView, _ answers: LoginAnswers
  ) throws(Failure) -> LoginStep {
    let id = answers.last["login_id"]?.string ?? ""
    let isHere = terminal.canAsk
    if !shell.isJSON || isHere { present(action, isNumbered: isHere) }
    guard isHere else {
      throw needsPerson(answers.last, id)
    }
    return .ask(question)
  }

  private func present(_ action: LoginActionView, isNumbered: Bool) {
    let message = SafeText.line(action.message)
    terminal.note(message.prefix(1).uppercased() + message.dropFirst() + (message.hasSuffix(".") ? "" : "."))
    switch action.kind {
    case .sessionLimit:
      guard action.sessions?.isEmpty == false else { return }
      let table = (action.sessions ?? []).table(isNumbered: isNumbered, now: shell.now)
      for line in table.lines(width: terminal.screen?.columns ?? 80, colour: terminal.isErrTTY && terminal.allowsColour)
      {
        terminal.note(line)
      }
    case .registration:
      if isNumbered {
        terminal.note(
          "Give what it asks for, such as first_name=Ada, each on a line of its own. Without any it says what it wants."
        )
      }
    }
  }

  /// The provider did not like something: it is asked again, and the rest is kept.
  private func askAgain(
    _ error: RPCError, _ attributes: [String: JSON], _ id: String, _ answers: inout LoginAnswers
  ) throws(Failure) -> LoginStep {
    guard terminal.canAsk else {
      var error = error
      error.hint = continuation(login: answers.last)
      var failure = Failure(error)
      failure.status = .actionRequired
      throw failure
    }
    var failure = Failure(error)
    failure.hints.removeAll { $0 == error.hint }
    for line in ([failure.message] + failure.hints).flatMap(SafeText.lines) { terminal.note(line) }
    let wrong = (error.fields ?? [:]).keys.sorted()
    return .ask(.registration(RegistrationForm(attributes, wrong: wrong)))
  }

  // MARK: What is sent

  private enum Sent {
    case answered(JSON)
    case rejected(RPCError)
  }

  private func send(_ params: LoginContinue.Params) async throws(Failure) -> Sent {
    // A connection of its own: a person may take longer than the broker keeps one.
    let client = try await shell.connect()
    do throws(SocketClientError) {
      return .answered(
        try await client.call(method: LoginContinue.name, params: JSON(encoding: params), timeout: Shell.patience))
    } catch {
      if case .rpc(let error) = error, error.reason == .registrationRejected { return .rejected(error) }
      throw await stillThere(Failure(error), error, params.login_id)
    }
  }

  // MARK: Failures after which the login waits on

  /// Says how to go on, where the login is still there. Of a broker that does not answer it has to be supposed.
  func stillThere(_ failure: Failure, _ error: SocketClientError, _ id: String) async -> Failure {
    switch error {
    case .rpc(let error) where error.reason != .shuttingDown:
      let list = try? await client.call(LoginList.self, NoParams(), timeout: Self.ending)
      guard list?.logins.contains(where: { $0.login_id == id }) == true else { return failure }
    case .rpc, .disconnected, .timedOut: break
    case .notRunning, .permissionDenied, .foreignServer, .malformed: return failure
    }
    var failure = failure
    failure.hints.append("The login waits on: `grantctl login continue \(ShellWord.quoted(id))`")
    return failure
  }

  /// Nobody is there to be asked.
  func needsPerson(_ login: JSON, _ id: String) -> Failure {
    let message = login["action"]?["message"]?.string ?? "the provider wants more than a sign-in"
    var failure = Failure(.actionRequired, message, hints: [continuation(login: login)])
    failure.login = login
    return failure
  }

  private func unknown(_ message: String?, _ id: String) -> Failure {
    Failure(
      .failure, message ?? "the provider asks for something more, which grantctl cannot answer",
      hints: [
        "grantctl and grantd may be of different versions: `grantctl version`.",
        "The login waits on: `grantctl login continue \(ShellWord.quoted(id))`",
      ])
  }

  /// The exact command.
  private func continuation(login: JSON) -> String {
    let id = ShellWord.quoted(login["login_id"]?.string ?? "LOGIN")
    let command = "grantctl login continue \(id)"
    switch login["action"]?["kind"]?.string.flatMap(LoginActionView.Kind.init(rawValue:)) {
    case .sessionLimit:
      if login["action"]?["sessions"]?.array?.isEmpty != false { return "Then go on with: `\(command)`" }
      return "The login waits on: `\(command) --replace-session ID`, with one of the IDs, `oldest` or `offline`."
    case .registration: return "The login waits on: `\(command) --attribute NAME=VALUE`, once for each attribute."
    case nil: return "The login waits on: `\(command)`"
    }
  }
}
