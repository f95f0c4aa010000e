import Broker
import BrokerAPI
import Glibc
import Grants
import OAuth

/// A hook as written.
struct HookDraft {
  var command: [String]?
  var events: [EventType] = EventType.allCases
  var accounts: [String]?
  var timeout = Duration.seconds(30)
  var passEnvironment: [String] = []
}

extension Sections {
  static let mostHooks = 100

  static let onEvent = Section<HookDraft>(
    header: "[[on_event]]",
    meaning:
      "A program that is run when something happens. It gets the event as a line of JSON on its standard input and in "
      + "its environment (`GRANTD_EVENT`, `GRANTD_ACCOUNT`, …; see [hooks](monitoring.md#hooks)), and never a token.",
    keys: [
      Key(
        "command", .command, \.command,
        "Required. The program, as an absolute path, and its arguments, unchanged: no shell reads them."),
      Key(
        "events", .list(.word, of: "events, such as \"login.required\"", orEmpty: false), \.events, standard: "all",
        "Which events it is run for: \(EventType.allCases.map { "`\($0.rawValue)`" }.joined(separator: ", "))."),
      Key(
        "accounts", .list(pattern, of: "account names", orEmpty: false), \.accounts,
        standard: "all, and events that concern no account",
        "The accounts, by name; `*` stands for any run of characters."),
      Key(
        "timeout", .duration(.seconds(1)...(.hours(1))), \.timeout, standard: "\"30s\"",
        "The time limit of a run; then it and the processes that it started are ended."),
      Key(
        "pass_environment", .list(.variable, of: "names of variables"), \.passEnvironment, standard: "none",
        "Variables of grantd's own environment that are passed on, such as `DBUS_SESSION_BUS_ADDRESS` for `notify-send`."
      ),
    ])
}

extension Form where Output == [String] {
  fileprivate static let command = list(
    .text, of: "texts: the program's absolute path and its arguments", orEmpty: false
  )
  .map { command throws(Unfit) in
    guard command[0].hasPrefix("/") else { throw .found("one that begins with \(quoted(command[0]))") }
    return command
  }
}

extension Form where Output == String {
  /// The variables that grantd sets for hooks are not taken from its environment, nor the location of its secrets.
  fileprivate static let variable = variableName.map { text throws(Unfit) in
    guard !text.hasPrefix("GRANTD_"), !["CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET"].contains(text) else {
      throw .found("\(quoted(text)), which is grantd's own")
    }
    return text
  }
}

extension Form where Output == LocalAddress {
  static let localAddress = Form<String>.text.map(
    "an address of this machine with a port, such as \"127.0.0.1:9464\" or \"[::1]:9464\", or the absolute path of a socket"
  ) { text throws(Unfit) in
    do throws(LocalAddress.Failure) {
      return try LocalAddress(text)
    } catch {
      switch error {
      case .noAddress: throw .found(quoted(text))
      case .noPort: throw .found("\(quoted(text)), whose port is none")
      case .notLoopback(let host):
        throw .because(
          "\(quoted(text)) can be reached from other machines (\(host.printable(limit: 64))), and what is "
            + "served there is for this machine",
          suggestion: "listen on 127.0.0.1 or [::1], behind a proxy that authenticates")
      case .pathTooLong: throw .found("a path that is too long for a socket")
      }
    }
  }
}

extension HookDraft {
  /// The hook; nil, and a report, if its keys contradict each other.
  func hook(_ section: NamedSection, report: inout ConfigurationReport) -> Hook? {
    guard let command else {
      report.require(["command"], in: section)
      return nil
    }
    // A warning: the disk that it is on may be mounted later, and everything else works without it.
    if let reason = Self.whyNotRunnable(command[0]) {
      report.warning(
        "the program \(quoted(command[0])) of [[on_event]] \(reason)", at: section.location(of: "command"))
    }
    return Hook(
      name: section.place.description, command: command, events: Set(events), accounts: accounts, timeout: timeout,
      passEnvironment: passEnvironment)
  }

  private static func whyNotRunnable(_ path: String) -> String? {
    var status = stat()
    guard stat(path, &status) == 0 else { return "cannot be found: \(String(cString: strerror(errno)))" }
    guard status.st_mode & S_IFMT == S_IFREG else { return "is not a file" }
    return access(path, X_OK) == 0 ? nil : "cannot be executed: \(String(cString: strerror(errno)))"
  }
}
