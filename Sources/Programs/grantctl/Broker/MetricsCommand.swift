import ArgumentParser
import BrokerAPI

struct MetricsCommand: BrokerCommand {
  static let configuration = CommandConfiguration(
    commandName: "metrics", abstract: "Print metrics (OpenMetrics).",
    usage: "grantctl metrics [options]",
    discussion: """
      The numbers are per provider; those of each account are in: grantctl list --json

      Examples:
        grantctl metrics | grep refreshes
        grantctl metrics --system > /var/lib/node_exporter/grantd.prom
      """)

  @OptionGroup var options: GlobalOptions

  func run(in shell: Shell) async throws(Failure) {
    let answer = try await shell.ask(BrokerMetrics.self, NoParams())
    if shell.isJSON { return shell.print(answer.json) }
    // Only characters that are safe on a terminal: names of accounts and providers are in it.
    for line in SafeText.lines(try answer.value().text) { shell.terminal.printWhole(line) }
  }
}
