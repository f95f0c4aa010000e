import BlockingClient
import BrokerAPI
import Platform

/// Why a command did not do what it was asked, and what a person does next.
struct Failure: Error, Equatable {
  var status: ExitStatus
  var message: String
  /// Each is printed on a line of its own.
  var hints: [String]
  /// The broker's error, where it answered with one.
  var rpc: RPCError?
  /// The login that waits for a person to do more, as the broker told it.
  var login: JSON?
  /// All there is to say is said.
  var isReported = false

  init(_ status: ExitStatus, _ message: String, hints: [String] = []) {
    self.status = status
    self.message = message
    self.hints = hints
  }

  /// What the command printed says why.
  static func reported(_ status: ExitStatus) -> Failure {
    var failure = Failure(status, "")
    failure.isReported = true
    return failure
  }

  init(_ error: RPCError) {
    status = ExitStatus(error)
    message = Self.words(error)
    rpc = error
    hints = []
    switch error.reason {
    case .invalidConfiguration, .registrationRejected: hints += error.detail.map { [$0] } ?? []
    default: break
    }
    for (name, troubles) in (error.fields ?? [:]).sorted(by: { $0.key < $1.key }) {
      hints.append("\(name): \(troubles.joined(separator: "; "))")
    }
    if let oauth = error.oauth {
      let words = [oauth.error, oauth.error_description].compactMap { $0 }.joined(separator: ": ")
      if !error.message.contains(oauth.error) { hints.append("The provider said: \(words)") }
      if let page = oauth.error_uri { hints.append("About the error: \(page)") }
    }
    hints += error.hint.map { [$0] } ?? []
  }

  /// The message without the terms of JSON-RPC that a command's user has not written.
  private static func words(_ error: RPCError) -> String {
    guard error.code == RPCError.invalidParams("").code else { return error.message }
    var message = error.message[...]
    for prefix in [RPCError.invalidParams("").message, "params."] where message.hasPrefix(prefix) {
      message = message.dropFirst(prefix.count)
    }
    return message.isEmpty ? error.message : String(message)
  }

  /// A call that has no result.
  init(_ error: SocketClientError) {
    switch error {
    case .rpc(let error): self.init(error)
    case .notRunning: self.init(ExitStatus(error), error.description)
    case .permissionDenied:
      self.init(
        ExitStatus(error), error.description,
        hints: [
          "The mode of the socket or of its folder does not admit you. An administrator changes SocketMode= of "
            + "grantd.socket, or `mode` in [socket] if no unit makes the socket.",
          "For your own broker: `grantctl --user status`",
        ])
    case .foreignServer(let path, let uid):
      let name = UserDatabase.user(uid).map { "\($0.name) (uid \(uid))" } ?? "uid \(uid)"
      self.init(
        ExitStatus(error), "the server at \(path) runs as \(name), not as root or as you",
        hints: [
          "Nothing was sent to it. `sudo ss -xlp src \(ShellWord.quoted(path))` says which program it is.",
          "If it is the broker that you mean, name it: --socket \(ShellWord.quoted(path))",
        ])
    case .disconnected:
      self.init(ExitStatus(error), error.description, hints: ["It was stopped or restarted; see its log."])
    case .timedOut:
      self.init(
        ExitStatus(error), error.description, hints: ["Ask again with a longer --timeout; work that has begun goes on."]
      )
    case .malformed:
      self.init(
        ExitStatus(error), error.description,
        hints: ["grantctl and grantd may be of different versions: `grantctl version`."])
    }
  }

  /// The error object for `--json`.
  var json: JSON {
    if let rpc { return ["error": rpc.json] }
    var data = [JSON.Member(name: "reason", value: .string(status.word))]
    if !hints.isEmpty { data.append(.init(name: "hint", value: .string(hints.joined(separator: "\n")))) }
    if let login { data.append(.init(name: "login", value: login)) }
    return ["error": ["message": .string(message), "data": .object(data)]]
  }
}
