/// `docs/configuration.md`, made from the same tables that decode the configuration.
public enum ConfigurationReference {
  public static func markdown() -> String {
    ([introduction] + chapters.map(\.text)).joined(separator: "\n")
  }

  /// The names of all keys by the header of their section.
  static var keys: [(header: String, names: [String])] { chapters.map { ($0.header, $0.names) } }

  private struct Chapter {
    let header: String
    let names: [String]
    let text: String
  }

  private static var chapters: [Chapter] {
    var chapters = [chapter(Sections.provider)] + ProviderKind.sections.map(chapter)
    chapters += [chapter(Sections.account), chapter(Sections.rule), chapter(Sections.onEvent)]
    chapters += [chapter(Sections.credential), chapter(Sections.credentials), chapter(Sections.file)]
    chapters += [chapter(Sections.http), chapter(Sections.proxy), chapter(Sections.handle), chapter(Sections.cloud)]
    chapters += [chapter(Sections.callback), chapter(Sections.socket), chapter(Sections.store)]
    chapters += [chapter(Sections.refresh), chapter(Sections.metrics), chapter(Sections.audit)]
    chapters += [chapter(Sections.lock), chapter(Sections.notify), chapter(Sections.clientMetadata)]
    chapters.append(chapter(Sections.stepUp))
    return chapters + [chapter(Sections.callerLimits), chapter(Sections.log)]
  }

  private static func chapter<Target>(_ section: Section<Target>) -> Chapter {
    Chapter(header: section.header, names: section.keys.map(\.name), text: text(section))
  }

  private static func text<Target>(_ section: Section<Target>) -> String {
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
    instance `$XDG_CONFIG_HOME/grantd/grantd.toml` and `grantd.d` next to it. All files together are one configuration:
    rules, hooks, `[[credential]]`, `[[file]]`, `[[handle]]` and `[[cloud]]` are appended, a later file's keys of `[callback]`, `[socket]`,
    `[store]`, `[refresh]`, `[metrics]`, `[http]`, `[proxy]`, `[credentials]`, `[audit]`, `[client_metadata]`, `[step_up]`, `[limits]` and `[log]` win, and a provider or an account may occur once. `config/grantd.toml` is an example with every key.

    `grantd --check-config` checks everything without starting. Each problem is a line with file, line and the correction;
    an unknown key is a problem. A file that is empty or does not end with a newline is refused: its end may be missing.
    `grantctl reload` reads it again: after any error nothing changes.

    Durations are a text with a unit, `"30s"`, `"5m"`, `"1h"`, `"90d"`, or a number of seconds. A configuration
    file never has secrets or keys: each is in a separate file or in a systemd credential.

    A profile's template may have variables, which are then keys of the provider: `tenant` of `microsoft`,
    `host` of `gitlab`. See [providers](providers.md).

    """
}
