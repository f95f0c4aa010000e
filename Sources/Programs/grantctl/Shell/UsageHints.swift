import ArgumentParser
import BrokerAPI
import CredentialHelpers

/// The hints of a usage error: the nearest command, or the names that an argument can have.
enum UsageHints {
  /// Names of one hint.
  private static let mostNames = 12
  /// Further accounts are not compared with a mistyped name.
  static let mostCompared = 1000
  /// The broker gets this long to list names.
  static let patience = 2.0
  /// More wrong letters than this are another word.
  private static let mostTypos = 2

  /// The error as ArgumentParser prints it, with the hints behind its first line.
  static func text(_ error: any Error, _ arguments: [String], _ terminal: Terminal) async -> String {
    let text = Grantctl.fullMessage(for: error)
    let first = String(text.prefix { $0 != "\n" })
    let hints = await hints(first, arguments, terminal)
    let message = isOfUnknown(first) ? unknown(arguments).map { "Error: \($0.text)" } : nil
    return ([message ?? first] + hints.map { "  " + $0 }).joined(separator: "\n") + text.dropFirst(first.count)
  }

  /// Whether ArgumentParser reports an argument or an option that does not exist.
  private static func isOfUnknown(_ message: String) -> Bool {
    message.lowercased().contains("unexpected argument") || message.contains("Unknown option")
  }

  private static func hints(_ message: String, _ arguments: [String], _ terminal: Terminal) async -> [String] {
    if message.contains("Missing expected argument '<account>'") {
      return await named("Accounts", "grantctl login PROVIDER ACCOUNT", arguments, terminal) { shell throws(Failure) in
        try await shell.accounts(.init(limit: mostNames + 1)).value().accounts.map(\.account)
      }
    }
    if message.contains("Missing expected argument '<provider>'") {
      return await named("Providers", "grantctl doctor", arguments, terminal) { shell throws(Failure) in
        try await shell.ask(ProviderList.self, NoParams()).value().providers.map(\.provider)
      }
    }
    if message.contains("Missing expected argument '<tool>'") {
      let columns = max(24, (terminal.screen?.columns ?? 80) - 2)
      return SafeText.wrapped("Tools: \(Tool.names.joined(separator: ", "))", columns: columns)
    }
    guard isOfUnknown(message) else { return [] }
    return nearest(arguments).map { ["Did you mean `\($0)`?"] } ?? []
  }

  /// The names that the broker knows; nothing if it does not answer.
  private static func named(
    _ title: String, _ first: String, _ arguments: [String], _ terminal: Terminal,
    _ names: (Shell) async throws(Failure) -> [String]
  ) async -> [String] {
    var settings = Shell.Settings(timeout: patience)
    settings.wish = GlobalOptions.wish(in: arguments)
    let shell = Shell(terminal: terminal, settings: settings)
    guard let found = try? await names(shell) else { return [] }
    guard !found.isEmpty else { return ["\(title): none yet. See `\(first)`."] }
    let more = found.count > mostNames ? ", …" : ""
    return [SafeText.line("\(title): \(found.prefix(mostNames).joined(separator: ", "))\(more)")]
  }

  // MARK: Mistyped commands

  /// An argument in the position of a command that does not exist.
  private struct Unknown {
    /// The words before it.
    var path: [String]
    var word: String
    /// The commands that exist there.
    var names: [String]

    var text: String { "\(path.joined(separator: " ")) has no command “\(SafeText.line(word))”" }
  }

  /// The command line up to the command that was meant; nil: none is near, or the command is right.
  static func nearest(_ arguments: [String]) -> String? {
    unknown(arguments).flatMap { unknown in
      near(unknown.word, unknown.names).map { (unknown.path + [$0]).joined(separator: " ") }
    }
  }

  /// Nil: each command exists.
  private static func unknown(_ arguments: [String]) -> Unknown? {
    // A command of ArgumentParser.
    if arguments.first == "help" { return nil }
    var (path, commands) = (["grantctl"], children(of: Grantctl.configuration))
    for word in arguments {
      guard !commands.isEmpty, !word.hasPrefix("-") else { return nil }
      guard let command = commands.first(where: { $0.commandName == word }) else {
        return Unknown(path: path, word: word, names: commands.filter(\.shouldDisplay).compactMap(\.commandName))
      }
      path.append(word)
      commands = children(of: command)
    }
    return nil
  }

  private static func children(of configuration: CommandConfiguration) -> [CommandConfiguration] {
    (configuration.subcommands + configuration.groupedSubcommands.flatMap(\.subcommands)).map { $0.configuration }
  }

  /// The account that was meant; nil: none is near, or the broker does not answer.
  static func nearAccount(_ name: String, in shell: Shell) async -> String? {
    var shell = shell
    shell.settings.timeout = patience
    let names = try? await shell.accounts(.init(limit: mostCompared)).value().accounts.map(\.account)
    return names.flatMap { near(name, $0) }.flatMap { $0 == name ? nil : $0 }
  }

  /// The name with the fewest typos, or the only one that begins so.
  static func near(_ word: String, _ names: [String]) -> String? {
    let typed = Array(word.lowercased())
    let distances = names.map { (name: $0, typos: typos(typed, Array($0))) }
    if let best = distances.min(by: { $0.typos < $1.typos }), best.typos <= min(mostTypos, typed.count / 2) {
      return best.name
    }
    let begun = names.filter { typed.count >= 2 && $0.hasPrefix(word) }
    return begun.count == 1 ? begun[0] : nil
  }

  /// Letters that are missing, added, wrong, or exchanged with their neighbour.
  private static func typos(_ left: [Character], _ right: [Character]) -> Int {
    var rows = [Array(0...right.count)]
    for i in 1...max(1, left.count) where i <= left.count {
      var row = [i]
      for j in 1...max(1, right.count) where j <= right.count {
        var least = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1))
        if i > 1, j > 1, left[i - 1] == right[j - 2], left[i - 2] == right[j - 1] {
          least = min(least, rows[i - 2][j - 2] + 1)
        }
        row.append(least)
      }
      rows.append(row)
    }
    return rows[left.count][right.count]
  }
}
