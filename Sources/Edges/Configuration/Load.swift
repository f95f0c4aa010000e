import Broker
import FoundationEssentials
import Grants
import OAuth
import Providers

extension Settings {
  /// Reads and checks everything, and reads the client secrets. Nothing is changed by it.
  ///
  /// - Throws: all that is wrong, to a limit; there are no half-read settings.
  public static func load(_ sources: Sources) throws(ConfigurationError) -> Settings {
    var loader = Loader(sources: sources)
    return try loader.load()
  }
}

/// One reading of the configuration.
struct Loader {
  let sources: Settings.Sources
  private var settings = Settings()
  private var report = ConfigurationReport()
  private let templates: Templates
  private var providers: [String: FileLocation] = [:]
  private var credentials: [String: FileLocation] = [:]
  private var files: [TokenFile.Place: FileLocation] = [:]
  private var handles: [String: FileLocation] = [:]
  private var clouds: [String: FileLocation] = [:]
  /// The tables of each section that may be there several times, in the files read so far.
  private var counts: [String: Int] = [:]
  private var publicURL: FileLocation?
  private var proxy = (draft: ProxyDraft(), table: [String: Item]())
  private var accounts = AccountDeclarations()
  /// The tables of all files in order: one may depend on another.
  private var roots: [[String: Item]] = []

  init(sources: Settings.Sources) {
    self.sources = sources
    templates = Templates(folders: sources.templateFolders)
  }

  mutating func load() throws(ConfigurationError) -> Settings {
    if sources.mustExist || ConfigurationFile.exists(sources.file) { read(sources.file) }
    if ConfigurationFile.exists(sources.folder) { readFolder() }
    for root in roots { read(root) }
    RedirectCheck(settings: settings, places: providers, publicURL: publicURL, file: sources.file)
      .check(report: &report)
    accounts.check(settings.providers, systems: settings.systems, known: providers, report: &report)
    settings.accounts = accounts.accounts
    settings.proxies = proxy.draft.proxies(proxy.table, sources: sources, report: &report)
    if let error = report.error { throw error }
    settings.warnings = report.warnings
    return settings
  }

  /// - Parameter mustBeComplete: whether a file that may be in the middle of being written is a problem.
  static func readTable(
    _ path: String, mustBeComplete: Bool = false, report: inout ConfigurationReport
  ) -> [String: Item]? {
    let file: ConfigurationFile
    do throws(ConfigurationFile.Failure) {
      file = try ConfigurationFile.read(path, limit: ConfigurationFile.sizeLimit)
    } catch {
      report.problem(error.text, at: FileLocation(file: path))
      return nil
    }
    if file.mode & 0o002 != 0 {
      report.problem("can be written by all users", at: FileLocation(file: path), suggestion: "run chmod o-w on it")
    }
    guard let text = file.text else {
      report.problem("is not UTF-8 text", at: FileLocation(file: path))
      return nil
    }
    if mustBeComplete, file.bytes.last != UInt8(ascii: "\n") {
      report.problem(
        text.isEmpty ? "is empty" : "does not end with a newline, so its end may be missing",
        at: FileLocation(file: path),
        suggestion: text.isEmpty ? "write its settings, or a comment if it needs none" : "complete its last line")
    }
    return TOMLDocument.parse(text, file: path, report: &report)
  }

  private mutating func readFolder() {
    guard let names = try? Settings.Sources.tomlFiles(orFailIn: sources.folder) else {
      return report.problem("cannot be listed", at: FileLocation(file: sources.folder))
    }
    for name in names { read("\(sources.folder)/\(name)") }
  }

  private mutating func read(_ path: String) {
    settings.files.append(path)
    if let root = Self.readTable(path, mustBeComplete: sources.mustBeComplete, report: &report) { roots.append(root) }
  }

  private mutating func read(_ root: [String: Item]) {
    for (name, item) in root.inOrder {
      switch name {
      case "provider": readProviders(item)
      case "account": accounts.read(item, sources: sources, report: &report)
      case "rule": readRules(item)
      case "on_event": readHooks(item)
      case "credential": readCredentials(item)
      case "file": readFiles(item)
      case "callback":
        read(item, Sections.callback, \.callback)
        publicURL = item.table?["public_url"]?.place ?? publicURL
      case "socket": read(item, Sections.socket, \.socket)
      case "store":
        read(item, Sections.store, \.store)
        Self.checkStore(&settings.store, item.table ?? [:], sources, report: &report)
      case "refresh": read(item, Sections.refresh, \.refresh)
      case "metrics": read(item, Sections.metrics, \.metrics)
      case "http": read(item, Sections.http, \.http)
      case "proxy": readProxy(item)
      case "handle": readHandles(item)
      case "cloud": readClouds(item)
      case "credentials": readCredentialSettings(item)
      case "lock": read(item, Sections.lock, \.lock)
      case "notify": read(item, Sections.notify, \.notify)
      case "audit": read(item, Sections.audit, \.audit)
      case "client_metadata": read(item, Sections.clientMetadata, \.self)
      case "step_up": read(item, Sections.stepUp, \.stepUp)
      case "limits": read(item, Sections.callerLimits, \.limits)
      case "log": read(item, Sections.log, \.self)
      default: reportUnknown(name, item)
      }
    }
  }

  private mutating func reportUnknown(_ name: String, _ item: Item) {
    let sections = [
      "provider", "account", "rule", "on_event", "credential", "credentials", "file", "callback", "socket", "store",
      "refresh", "metrics", "http", "proxy", "handle", "cloud", "lock", "notify", "audit", "client_metadata", "step_up",
      "limits", "log",
    ]
    let near = nearest(to: name, in: sections).map { "did you mean \(Self.header($0))?" }
    guard item.table == nil else {
      return report.problem("unknown section [\(name.printable(limit: 64))]", at: item.place, suggestion: near)
    }
    report.problem("unknown key \(quoted(name)) outside of any section", at: item.place, suggestion: near)
  }

  private static func header(_ section: String) -> String {
    switch section {
    case "provider", "account": "[\(section).NAME]"
    case "rule", "on_event", "credential", "file", "handle", "cloud": "[[\(section)]]"
    default: "[\(section)]"
    }
  }

  private mutating func read<Target>(
    _ item: Item, _ section: Section<Target>, _ member: WritableKeyPath<Settings, Target>
  ) {
    guard let table = item.table else {
      return report.problem("\(section.header) must be a table, not \(item.value.kind)", at: item.place)
    }
    section.read(table, into: &settings[keyPath: member], title: section.header, report: &report)
  }

  /// The tables of a repeatable section, such as `[[rule]]`.
  ///
  /// - Parameters:
  ///   - plural: their name in messages.
  ///   - noun: the noun for too many.
  private mutating func readEach<Draft>(
    _ item: Item, _ section: Section<Draft>, as plural: String, atMost most: Int = .max, noun: String? = nil,
    _ empty: Draft, _ take: (inout Loader, Draft, NamedSection) -> Void
  ) {
    guard case .list(let items) = item.value, items.allSatisfy({ $0.table != nil }) else {
      return report.problem("\(plural) are written as \(section.header), with two brackets", at: item.place)
    }
    for (index, item) in items.enumerated() {
      guard counts[section.header, default: 0] + index < most else {
        report.problem("there are more than \(most) \(noun ?? section.header)", at: item.place)
        break
      }
      let table = item.table ?? [:]
      var draft = empty
      section.read(table, into: &draft, title: section.header, report: &report)
      take(&self, draft, NamedSection(title: section.header, table: table, place: item.place))
    }
    counts[section.header, default: 0] += items.count
  }

  /// Reports duplicates.
  private mutating func checkFirst<Key: Hashable>(
    _ key: Key, in known: WritableKeyPath<Loader, [Key: FileLocation]>, _ title: String, at place: FileLocation
  ) {
    guard let first = self[keyPath: known].updateValue(place, forKey: key) else { return }
    report.problem("\(title) is there twice", at: place, suggestion: "the first is at \(first)")
  }

  private mutating func readRules(_ item: Item) {
    readEach(item, Sections.rule, as: "rules", RuleDraft()) { loader, draft, section in
      if let rule = draft.rule(section.table, at: section.place, sources: loader.sources, report: &loader.report) {
        loader.settings.rules.append(rule)
      }
    }
  }

  private mutating func readHooks(_ item: Item) {
    readEach(
      item, Sections.onEvent, as: "hooks", atMost: Sections.mostHooks, noun: "[[on_event]] hooks", HookDraft()
    ) { loader, draft, section in
      if let hook = draft.hook(section, report: &loader.report) { loader.settings.hooks.append(hook) }
    }
  }

  private mutating func readCredentials(_ item: Item) {
    readEach(
      item, Sections.credential, as: "credentials", atMost: Sections.mostCredentials, CredentialDraft()
    ) { loader, draft, section in
      guard let offer = draft.offer(section, report: &loader.report) else { return }
      loader.checkFirst(offer.id, in: \.credentials, "[[credential]] with id \(quoted(offer.id))", at: section.place)
      loader.settings.credentials.offers.append(offer)
    }
  }

  private mutating func readFiles(_ item: Item) {
    readEach(
      item, Sections.file, as: "token files", atMost: Sections.mostFiles, FileDraft()
    ) { loader, draft, section in
      guard let file = draft.file(section, sources: loader.sources, report: &loader.report) else { return }
      loader.checkFirst(file.place, in: \.files, "[[file]] with path \(quoted(file.name))", at: section.place)
      loader.settings.tokenFiles.append(file)
    }
  }

  private mutating func readHandles(_ item: Item) {
    readEach(
      item, Sections.handle, as: "handles", atMost: Sections.mostHandles, HandleDraft()
    ) { loader, draft, section in
      guard let handle = draft.handle(section, report: &loader.report) else { return }
      loader.checkFirst(handle.name, in: \.handles, "[[handle]] with name \(quoted(handle.name))", at: section.place)
      loader.settings.loopback.handles.append(handle)
    }
  }

  private mutating func readClouds(_ item: Item) {
    readEach(
      item, Sections.cloud, as: "clouds", atMost: Sections.mostClouds, CloudDraft()
    ) { loader, draft, section in
      guard let cloud = draft.cloud(section, report: &loader.report) else { return }
      let kind = draft.kind?.rawValue ?? ""
      // The first metadata server whose account the caller may use answers.
      if kind != "gcp" {
        let title = "[[cloud]] of kind \(kind) with name \(quoted(cloud.name))"
        loader.checkFirst("\(kind)/\(cloud.name)", in: \.clouds, title, at: section.place)
      }
      loader.settings.loopback.clouds.append(cloud)
    }
  }

  private mutating func readCredentialSettings(_ item: Item) {
    if case .list = item.value {
      return report.problem(
        "credentials are written as [[credential]]; [credentials] is one table", at: item.place)
    }
    read(item, Sections.credentials, \.credentials)
  }

  private mutating func readProxy(_ item: Item) {
    guard let table = item.table else {
      return report.problem("[proxy] must be a table, not \(item.value.kind)", at: item.place)
    }
    Sections.proxy.read(table, into: &proxy.draft, title: Sections.proxy.header, report: &report)
    proxy.table.merge(table) { $1 }
  }

  private mutating func readProviders(_ item: Item) {
    guard let table = item.table else {
      return report.problem("providers are written as [provider.NAME]", at: item.place)
    }
    for (key, item) in table.inOrder { readProvider(key, item) }
  }

  private mutating func readProvider(_ key: String, _ item: Item) {
    guard let written = item.table else {
      return report.problem(
        "\(quoted(key)) in [provider] must be a table", at: item.place,
        suggestion: "providers are written as [provider.NAME]")
    }
    guard let name = ProviderName(rawValue: key) else {
      return report.problem(
        "\(quoted(key)) is not a name for a provider", at: item.place,
        suggestion: "use 1 to 64 characters of A-Z a-z 0-9 . _ @ + -")
    }
    if let first = providers[key] {
      return report.problem("[provider.\(name)] is there twice", at: item.place, suggestion: "the first is at \(first)")
    }
    providers[key] = item.place
    let title = "[provider.\(name)]"
    var section = written
    if let secret = section.removeValue(forKey: Sections.inlineSecret) {
      report.problem(
        "\"client_secret\" in \(title) is refused: others may read this file", at: secret.place,
        suggestion: "put it in a file of mode 0600 and write client_secret_file, or use client_secret_credential")
    }
    guard let (table, variables) = withTemplate(section, title: title, at: item.place) else { return }
    let kind = table["kind"]?.text.flatMap(ProviderKind.init) ?? .oidc
    if let section = kind.section { return readSystem(name, kind, section, table, variables, at: item.place) }
    var draft = ProviderDraft(name)
    Sections.provider.read(
      table, into: &draft, title: title, others: variables, misplaced: kind.lacks, report: &report)
    let check = ProviderSectionCheck(
      draft: draft, section: NamedSection(title: title, table: table, place: item.place),
      servesAccounts: AccountDeclarations.providers(in: roots).contains(key), sources: sources)
    if let provider = check.settings(report: &report) { settings.providers.append(provider) }
  }

  private mutating func readSystem(
    _ name: ProviderName, _ kind: ProviderKind, _ section: Section<SystemDraft>, _ table: [String: Item],
    _ variables: [String], at place: FileLocation
  ) {
    let title = "[provider.\(name)]"
    var draft = SystemDraft()
    section.read(table, into: &draft, title: title, others: variables, misplaced: kind.lacks, report: &report)
    let check = SystemCheck(
      name: name, kind: kind, draft: draft, section: NamedSection(title: title, table: table, place: place),
      sources: sources)
    if let system = check.settings(report: &report) { settings.systems.append(system) }
  }

  /// The section with its template under it, and the template's variables. Nil, and a report, if the template does not
  /// exist: without it all keys of the section would be wrong.
  private mutating func withTemplate(
    _ section: [String: Item], title: String, at place: FileLocation
  ) -> (table: [String: Item], variables: [String])? {
    guard let profile = section["profile"] else { return (section, []) }
    guard let name = profile.text else {
      report.problem("\"profile\" in \(title) must be a text, not \(profile.value.kind)", at: profile.place)
      return nil
    }
    guard let template = templates.find(name, title: title, at: profile.place, report: &report),
      let table = template.applied(to: section, title: title, at: place, report: &report)
    else { return nil }
    return (table, template.variables.keys.sorted())
  }
}
