import ArgumentParser
import Broker
import BrokerAPI
import CLinux
import FoundationEssentials
import Glibc
import GrantdConfiguration
import Logging
import Platform
import Systemd

/// The daemon's command line, read here once; ``Daemon`` does the rest.
@main
struct GrantdCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "grantd",
    abstract: "A local OAuth broker: signs people in, keeps their grants, hands fresh tokens to local programs.",
    usage: "grantd [--system | --user] [options]",
    discussion: """
      Usually started by systemd; `grantctl` is its command line for people.

      EXAMPLES
        grantd --user                  the instance of the user who starts it
        grantd --user --check-config   only check the configuration

      EXIT STATUS
        0   stopped in order
        1   cannot serve: the socket or the state folder is in use or out of
            reach; or stopped with tokens that could not be saved there
        65  the state is damaged, newer than this version, or sealed under
            another key
        78  the configuration has an error
      """,
    version: GrantdVersion.current)

  @Flag(help: "The system instance: /etc/grantd, /var/lib/grantd, /run/grantd. The default for root.")
  var system = false

  @Flag(help: "The instance of this user: ~/.config/grantd, ~/.local/state/grantd, $XDG_RUNTIME_DIR/grantd.")
  var user = false

  @Option(name: .customLong("config"), help: ArgumentHelp("The configuration file.", valueName: "file"))
  var config: String?

  @Option(help: ArgumentHelp("The state folder.", valueName: "folder"))
  var state: String?

  @Option(help: ArgumentHelp("The socket.", valueName: "path"))
  var socket: String?

  @Option(help: ArgumentHelp("A folder of provider templates, searched first.", valueName: "folder"))
  var templates: [String] = []

  @Option(help: ArgumentHelp("trace, debug, info, notice, warning or error.", valueName: "level"))
  var logLevel: String?

  @Flag(help: "Check the configuration and exit: status 0, or 78 with the errors.")
  var checkConfig = false

  func validate() throws {
    if system, user { throw ValidationError("--system and --user exclude each other.") }
    if let logLevel, Logger.Level(rawValue: logLevel) == nil {
      throw ValidationError("--log-level is trace, debug, info, notice, warning or error.")
    }
  }

  func run() async throws {
    // Tokens pass through this process: nothing of it may end in a core file.
    _ = clinux_forbid_dumps()
    _ = clinux_forbid_core_files()
    signal(SIGPIPE, SIG_IGN)
    // The parent may have ignored it; then the status of a hook is lost (waitpid(2)).
    signal(SIGCHLD, SIG_DFL)
    raiseDescriptorLimit()
    // glibc gives nearly every thread its own heap, and each keeps the memory of its busiest moment: after a burst of
    // clients twice the memory in use.
    clinux_limit_heaps(2)
    let instance: Policy.Instance = system || (!user && geteuid() == 0) ? .system : .user
    let places: Places
    do throws(PlaceError) {
      places = try Places(
        instance: instance, config: config, state: state, socket: socket, templates: templates,
        environment: Environment.own)
    } catch {
      fail("grantd: \(error)", status: 78)
    }
    let settings: Settings
    do throws(ConfigurationError) {
      settings = try Settings.load(places.sources)
    } catch {
      fail("\(error)", status: 78)
    }
    if checkConfig { report(settings, places) }
    let logger = logger(settings)
    for warning in settings.warnings { logger.warning("\(warning)") }
    do {
      try await Daemon(places: places, settings: settings, logger: logger).run()
      LogQueue.shared.flush()
    } catch var failure as DaemonFailure {
      failure.log(to: logger)
      // The logger may write to a place that the user does not read.
      if LogDestination.current() == .journal { Self.exit(withStatus: failure.status) }
      fail("grantd: \(failure.message)\n  \(failure.hint)", status: failure.status)
    }
  }

  /// The broker's own descriptors, some connections to providers, and a few of callers.
  private static let fewestDescriptors: rlim_t = 128

  /// Each connection takes a descriptor; the soft limit is 1,024 on most systems. With too few the libraries below would
  /// end the process, or callers would not be answered.
  private func raiseDescriptorLimit() {
    var limit = rlimit()
    guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = min(limit.rlim_max, 65_536)
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    guard limit.rlim_cur < Self.fewestDescriptors, !checkConfig else { return }
    fail(
      "grantd: at most \(limit.rlim_cur) files may be open here, and grantd needs \(Self.fewestDescriptors)\n"
        + "  Raise LimitNOFILE= of the service, or `ulimit -Hn` of the shell.", status: 78)
  }

  private func logger(_ settings: Settings) -> Logger {
    let destination = LogDestination.current()
    LoggingSystem.bootstrap { _ in destination.handler(identifier: "grantd", now: Live.sinceEpoch) }
    var logger = Logger(label: "grantd")
    logger.logLevel = (logLevel ?? settings.logLevel).flatMap(Logger.Level.init(rawValue:)) ?? .info
    return logger
  }

  private func report(_ settings: Settings, _ places: Places) -> Never {
    let files =
      settings.files.isEmpty ? "built-in defaults (no \(places.configuration))" : settings.files.joined(separator: ", ")
    for warning in settings.warnings { print("warning: \(warning)") }
    func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
    print("ok: \(files): \(count(settings.allProviders.count, "provider")), \(count(settings.rules.count, "rule"))")
    Self.exit(withStatus: 0)
  }

  private func fail(_ message: String, status: Int32) -> Never {
    LogQueue.shared.flush()
    Array((message + "\n").utf8).withUnsafeBytes { _ = write(STDERR_FILENO, $0.baseAddress, $0.count) }
    Self.exit(withStatus: status)
  }

  private static func exit(withStatus status: Int32) -> Never {
    LogQueue.shared.flush()
    fflush(nil)
    Glibc.exit(status)
  }
}

/// Why the daemon cannot serve, or ends with something left undone.
struct DaemonFailure: Error {
  var message: String
  var hint: String
  var status: Int32
  private var isLogged = false

  init(message: String, hint: String, status: Int32) {
    self.message = message
    self.hint = hint
    self.status = status
  }

  /// Once.
  mutating func log(to logger: Logger) {
    if !isLogged { logger.critical("\(message)", metadata: ["hint": "\(hint)"]) }
    isLogged = true
  }
}
