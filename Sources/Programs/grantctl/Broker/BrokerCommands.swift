import ArgumentParser
import BrokerAPI

struct ReloadCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "reload", abstract: "Reload the configuration.",
    usage: "grantctl reload [options]",
    discussion: """
      Ends when the new configuration is active. An invalid file, one that is empty or does not end with a \
      newline, and a port that is taken change nothing: the exit status is \
      \(ExitStatus.configuration.rawValue). If a listener that was configured before cannot be served, the status is \
      \(ExitStatus.failure.rawValue).

      Example:
        grantctl reload --system
      """)

  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(BrokerReload.self, NoParams())
    let result = try answer.value()
    let failed = (result.listeners ?? []).filter { $0.state != "ok" }
    if shell.isJSON { shell.print(answer.json) } else { show(result, shell) }
    guard failed.isEmpty else {
      throw Failure(
        .failure, failed.map { $0.message ?? "\($0.setting) is not served" }.joined(separator: "; "),
        hints: failed.compactMap(\.hint))
    }
  }

  private func show(_ result: BrokerReload.Result, _ shell: Shell) {
    // The error reports those of listeners.
    let errors = (result.listeners ?? []).compactMap(\.message)
    let warnings = result.warnings.filter { warning in !errors.contains { warning.hasPrefix($0) } }
    for warning in warnings.flatMap(SafeText.lines) { shell.terminal.note("warning: \(warning)") }
    // Those that `setup` registered are not in the configuration.
    let providers = "\(result.providers) provider\(result.providers == 1 ? "" : "s")"
    shell.terminal.print("Reloaded. The configuration has \(providers).")
  }
}

struct CallCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "call", abstract: "Call an RPC method.",
    usage: "grantctl call <method> [<params>] [options]",
    discussion: """
      docs/rpc.md describes the methods; so does: grantctl call rpc.discover

      Examples:
        grantctl call account.get '{"account": "work"}'
        grantctl call login.handle_callback - < params.json
      """)

  @Argument(help: "The method's name.")
  var method: String
  @Argument(
    help: ArgumentHelp("Its parameters, a JSON object; “-” reads them from standard input.", valueName: "params"))
  var params: String?
  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    var text = params
    if params == "-" {
      var lines: [String] = []
      for await line in shell.terminal.lines() { lines.append(line) }
      text = lines.joined(separator: "\n")
    }
    let params = try text.map { text throws(Failure) in try Self.parse(text) }
    shell.print(try await shell.ask(method, params, on: shell.connect()))
  }

  private static func parse(_ text: String) throws(Failure) -> JSON {
    do throws(JSONError) {
      return try JSON.parse(Array(text.utf8))
    } catch {
      throw Failure(
        .usage, "the parameters are not valid JSON: \(error)", hints: ["Give an object: '{\"account\": \"work\"}'."])
    }
  }
}

/// For `make install` and for generators of clients: the document without a broker.
struct OpenRPCCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "openrpc", abstract: "Print the socket's methods as an OpenRPC document.",
    usage: "grantctl openrpc",
    discussion: """
      Needs no broker. For the methods of the running broker: grantctl call rpc.discover

      Example:
        grantctl openrpc > openrpc.json
      """)

  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) { shell.terminal.printWhole(OpenRPC.document().pretty(width: 100)) }
}

struct VersionCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "version", abstract: "Print versions.",
    usage: "grantctl version [options]",
    discussion: """
      Example:
        grantctl version --json
      """)

  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let daemon: String?
    do throws(Failure) {
      daemon = try await shell.ask(BrokerStatus.self, NoParams()).json["version"]?.string
    } catch {
      // The version of grantctl is an answer even where nobody else gives one.
      daemon = nil
    }
    let own = GrantdVersion.current
    if shell.isJSON {
      return shell.print(["grantctl": .string(own), "grantd": daemon.map { .string($0) } ?? .null])
    }
    shell.terminal.print("grantctl \(own)")
    shell.terminal.print("grantd \(daemon.map(SafeText.line) ?? "does not answer")")
  }
}
