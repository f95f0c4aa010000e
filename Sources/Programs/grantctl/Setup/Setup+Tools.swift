import ArgumentParser
import BrokerAPI
import CredentialHelpers

// Step 7: the programs that will use the account.
extension Setup {
  mutating func configure(_ account: String) async throws(Failure) {
    guard let tool = try await program(), tool != "none" else { return }
    guard let chosen = Tool.named(tool) else {
      throw Failure(
        .usage, "there is no configuration for \(SafeText.line(tool))",
        hints: UsageHints.near(tool, Tool.names).map { ["Did you mean \($0)?"] } ?? [
          "There are: \(Tool.names.joined(separator: ", "))"
        ])
    }
    var server = given.server
    if server == nil, chosen.need != .nothing, chosen.need != .role {
      server = try await questions.text(
        chosen.need == .address ? "Its URL at the server" : "Its server", flag: "--tool \(tool) --server HOST")
    }
    let words = [tool, account] + (server.map { [$0] } ?? [])
    var isWritten = given.yes
    if !isWritten {
      try await run(words)
      guard questions.canAsk else {
        return mention("Program", "\(tool): shown, not written; --yes writes it")
      }
      isWritten = try await questions.agrees("Write this to the files of \(tool)?", standard: true)
    }
    guard isWritten else { return mention("Program", "\(tool): not written") }
    try await run(words + ["--write"], isShown: !given.yes)
    done("Program", tool)
  }

  private func program() async throws(Failure) -> String? {
    if given.tool != nil || !questions.canAsk { return given.tool }
    terminal.note("Which program will use this account? \(Tool.names.joined(separator: ", "))")
    while true {
      let tool = try await questions.text(
        "Program, or none", standard: "none", isOptional: true, flag: "--tool TOOL")
      if tool == "none" || Tool.named(tool) != nil { return tool }
      // The sign-in is done: a mistyped name does not end it.
      let meant = UsageHints.near(tool, Tool.names).map { "Did you mean \($0)?" }
      let advice = meant ?? "There are: \(Tool.names.joined(separator: ", "))"
      terminal.note(SafeText.line("There is no configuration for \(tool). \(advice)"))
    }
  }

  private func run(_ words: [String], isShown: Bool = false) async throws(Failure) {
    let command: ConfigureCommand
    do {
      command = try ConfigureCommand.parse(words)
    } catch {
      throw Failure(.usage, ConfigureCommand.message(for: error))
    }
    try await command.configure(in: shell, isShown: isShown)
  }
}
