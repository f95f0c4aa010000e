import ArgumentParser
import AsyncClient
import BlockingClient
import BrokerAPI
import PlainText

struct EventsCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "events", abstract: "Stream events.",
    usage: "grantctl events [options]",
    discussion: """
      One line for each event, or one JSON object with --json. Ends with an error when the daemon goes away.

      Types: \(EventType.allCases.map(\.rawValue).joined(separator: ", ")).

      Examples:
        grantctl events
        grantctl events --event login.required --event token.failed --json
      """)

  @Option(help: "Only events of this type. Can be repeated.")
  var event: [String] = []
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let client = try await shell.connect()
    _ = try await shell.ask(EventsSubscribe.self, .init(events: event.isEmpty ? nil : event), on: client)
    if shell.terminal.isErrTTY, !shell.isJSON { shell.terminal.note("Waiting for events; Ctrl-C ends.") }
    for await notification in client.notifications where notification.method == Event.method {
      shell.terminal.printWhole(shell.isJSON ? Shell.line(notification.params) : Self.line(notification.params, shell))
    }
    throw Failure(SocketClientError.disconnected)
  }

  /// Read member by member: an event of a newer broker is shown as far as it is understood.
  static func line(_ event: JSON, _ shell: Shell) -> String {
    var parts = [event["at"]?.integer.map { TimeText.date($0, in: shell.terminal.timeZone) } ?? "-"]
    parts.append(event["type"]?.string ?? "-")
    switch (event["account"]?.string, event["provider"]?.string) {
    case (let account?, let provider?): parts.append("\(account) (\(provider))")
    case (let name?, nil), (nil, let name?): parts.append(name)
    case (nil, nil): break
    }
    if let release = event["release"] {
      parts.append(release["id"]?.string ?? "-")
      if let outcome = release["outcome"]?.string { return SafeText.line((parts + [outcome]).joined(separator: "  ")) }
    }
    if let generation = event["generation"]?.integer { parts.append("generation \(generation)") }
    let end = event["refresh_expires_at"]?.integer.map { TimeText.date($0, in: shell.terminal.timeZone) }
    if let message = event["message"]?.string { parts.append(message + (end.map { " (\($0))" } ?? "")) }
    if let hint = event["hint"]?.string { parts.append(shell.adapted(hint)) }
    return SafeText.line(parts.joined(separator: "  "))
  }
}
