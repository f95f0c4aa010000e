/// `docs/configuration.md`, made from the same tables that decode the configuration.
public enum ConfigurationReference {
  public static func markdown() -> String {
    let sections =
      [section(Sections.provider)] + ProviderKind.sections.map(section) + [
        section(Sections.account),
        section(Sections.rule), section(Sections.onEvent), section(Sections.credential), section(Sections.credentials),
        section(Sections.callback), section(Sections.socket), section(Sections.store), section(Sections.refresh),
        section(Sections.metrics), section(Sections.audit), section(Sections.callerLimits),
        section(Sections.log),
      ]
    return ([introduction] + sections).joined(separator: "\n")
  }

  /// The names of all keys by the header of their section.
  static var keys: [(header: String, names: [String])] {
    [(Sections.provider.header, Sections.provider.keys.map(\.name))]
      + ProviderKind.sections.map { ($0.header, $0.keys.map(\.name)) } + [
        (Sections.account.header, Sections.account.keys.map(\.name)),
        (Sections.rule.header, Sections.rule.keys.map(\.name)),
        (Sections.onEvent.header, Sections.onEvent.keys.map(\.name)),
        (Sections.credential.header, Sections.credential.keys.map(\.name)),
        (Sections.credentials.header, Sections.credentials.keys.map(\.name)),
        (Sections.callback.header, Sections.callback.keys.map(\.name)),
        (Sections.socket.header, Sections.socket.keys.map(\.name)),
        (Sections.store.header, Sections.store.keys.map(\.name)),
        (Sections.refresh.header, Sections.refresh.keys.map(\.name)),
        (Sections.metrics.header, Sections.metrics.keys.map(\.name)),
        (Sections.audit.header, Sections.audit.keys.map(\.name)),
        (Sections.callerLimits.header, Sections.callerLimits.keys.map(\.name)),
        (Sections.log.header, Sections.log.keys.map(\.name)),
      ]
  }

  private static func section<Target>(_ section: Section<Target>) -> String {
    let head =
      "## `\(section.header)`\n\n\(section.meaning)\n\n| key | value | default | meaning |\n|---|---|---|---|\n"
    return section.keys.reduce(head) { text, key in
      text + "| `\(key.name)` | \(cell(key.expected)) | \(cell(standard(key.standard))) | \(cell(key.meaning)) |\n"
    }
  }

  /// A default that is a value is set as code; one that is a phrase has its own marks.
  private static func standard(_ text: String) -> String {
    let isValue = !text.isEmpty && !text.contains("`") && !text.contains(";") && !text.contains(",")
    return isValue && !text.contains(" with") && (!text.contains(" ") || text.hasPrefix("\"")) ? "`\(text)`" : text
  }

  private static func cell(_ text: String) -> String {
    text.replacing("|", with: "\\|")
  }

  private static let introduction = """
    # Configuration

    This page is generated from the code that reads the configuration.

    A system instance reads `/etc/grantd/grantd.toml` and then `/etc/grantd/grantd.d/*.toml`, sorted by name; a user
    instance `$XDG_CONFIG_HOME/grantd/grantd.toml` and `grantd.d` beside it. All of them together are one configuration:
    rules, hooks and `[[credential]]` are appended, a later file's keys of `[callback]`, `[socket]`, `[store]`, `[refresh]`, `[metrics]`,
    `[credentials]`, `[audit]`, `[limits]` and `[log]` win, and a provider or an account may be there once. `config/grantd.toml` is an example with every key.

    `grantd --check-config` checks everything without starting. Each problem is a line with file, line and what to do;
    an unknown key is a problem. `grantctl reload` reads it again: if anything is wrong nothing changes.

    Durations are a text with a unit, `"30s"`, `"5m"`, `"1h"`, `"90d"`, or a number of seconds. Secrets and keys
    never stand in a configuration file: each is in a file of its own or in a systemd credential.

    A profile's template may have variables of its own, which are then keys of the provider: `tenant` of `microsoft`,
    `host` of `gitlab`. See [providers](providers.md).

    """
}
