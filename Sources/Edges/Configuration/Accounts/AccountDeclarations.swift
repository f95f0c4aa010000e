import Grants
import OAuth
import Providers

/// The accounts of all files, checked together at the end: an account and its provider may be in different files.
struct AccountDeclarations {
  private(set) var accounts: [DeclaredAccount] = []
  /// The position of each, including invalid ones.
  private var places: [AccountName: FileLocation] = [:]
  private var tables: [AccountName: [String: Item]] = [:]
  /// The providers that any account names by its grant, held together or not.
  private var grants: [ProviderName: Set<AccountDraft.Grant>] = [:]

  mutating func read(_ item: Item, sources: Settings.Sources, report: inout ConfigurationReport) {
    guard let table = item.table else {
      return report.problem("accounts are written as [account.NAME]", at: item.place)
    }
    for (key, item) in table.inOrder { read(key, item, sources: sources, report: &report) }
  }

  private mutating func read(_ key: String, _ item: Item, sources: Settings.Sources, report: inout ConfigurationReport)
  {
    guard let table = item.table else {
      return report.problem(
        "\(quoted(key)) in [account] must be a table", at: item.place,
        suggestion: "accounts are written as [account.NAME]")
    }
    guard let name = AccountName(rawValue: key) else {
      return report.problem(
        "\(quoted(key)) is not a name for an account", at: item.place,
        suggestion: "use 1 to 128 characters of A-Z a-z 0-9 . _ @ + -")
    }
    let title = "[account.\(name)]"
    if let first = places[name] {
      return report.problem("\(title) is there twice", at: item.place, suggestion: "the first is at \(first)")
    }
    guard places.count < Sections.mostAccounts else {
      return report.problem("there are more than \(Sections.mostAccounts) accounts", at: item.place)
    }
    places[name] = item.place
    tables[name] = table
    var draft = AccountDraft()
    Sections.account.read(table, into: &draft, title: title, report: &report)
    if let provider = draft.provider, let grant = draft.grant { grants[provider, default: []].insert(grant) }
    let check = AccountCheck(
      name: name, draft: draft, section: NamedSection(title: title, table: table, place: item.place), sources: sources)
    if let account = check.account(report: &report) { accounts.append(account) }
  }

  /// The providers that accounts of these files name, whether or not they hold together.
  static func providers(in roots: [[String: Item]]) -> Set<String> {
    Set(roots.flatMap { ($0["account"]?.table ?? [:]).values.compactMap { $0.table?["provider"]?.text } })
  }

  /// - Parameter known: where each provider is, those too that do not hold together.
  func check(
    _ providers: [ProviderSettings], systems: [SystemSettings], known: [String: FileLocation],
    report: inout ConfigurationReport
  ) {
    for account in accounts {
      let title = "[account.\(account.name)]"
      let place = tables[account.name]?["provider"]?.place ?? places[account.name] ?? FileLocation(file: "")
      guard known[account.provider.rawValue] != nil else {
        report.problem(
          "\(title) is of [provider.\(account.provider)], which is not there", at: place,
          suggestion: didYouMean(account.provider.rawValue, known.keys.sorted()) ?? "add it")
        continue
      }
      if systems.contains(where: { $0.site.name == account.provider }) {
        report.problem(
          "\(title) needs no login, and [provider.\(account.provider)] has no grant without a user",
          at: place,
          suggestion: "remove it, and sign in with grantctl login \(account.provider) \(account.name)")
        continue
      }
      guard let provider = providers.first(where: { $0.name == account.provider }) else { continue }
      if account.source == .clientCredentials, provider.client.credential == .none {
        report.problem(
          "\(title) has grant = \"client_credentials\", and the client of [provider.\(provider.name)] proves itself by "
            + "nothing (RFC 6749 §4.4)",
          at: place, suggestion: "give the provider a client_secret_file, a client_key_file or a tls_certificate_file")
      }
      if account.audience != nil, provider.access.audienceParameter == nil {
        report.problem(
          "\"audience\" in \(title) has no use: [provider.\(provider.name)] has no \"audience_parameter\"",
          at: tables[account.name]?["audience"]?.place ?? place,
          suggestion: "add audience_parameter = \"audience\" to it")
      }
      checkCircle(account, title: title, report: &report)
    }
    for provider in providers where provider.client.id.isEmpty { checkClient(provider, known, report: &report) }
  }

  /// Tokens that are each traded for the other's would never be had.
  private func checkCircle(_ account: DeclaredAccount, title: String, report: inout ConfigurationReport) {
    var seen: Set<AccountName> = [account.name]
    var open = account.source.accounts
    while let next = open.popLast() {
      if next == account.name {
        let place = tables[account.name]?["from"]?.place ?? FileLocation(file: "")
        return report.problem("\(title) is traded for a token of its own, in a circle", at: place)
      }
      guard seen.insert(next).inserted else { continue }
      open += accounts.first { $0.name == next }?.source.accounts ?? []
    }
  }

  /// A service account's assertion needs no client (RFC 7521 §4.1); all others do.
  private func checkClient(
    _ provider: ProviderSettings, _ known: [String: FileLocation], report: inout ConfigurationReport
  ) {
    guard grants[provider.name] != [.jwtBearer] || provider.client.credential != .none else { return }
    report.problem(
      "[provider.\(provider.name)] has no \"client_id\"", at: known[provider.name.rawValue] ?? FileLocation(file: ""),
      suggestion: "register a client at the provider, and write its id here")
  }
}

extension GrantSource {
  /// The accounts whose tokens are needed first.
  fileprivate var accounts: [AccountName] {
    switch self {
    case .clientCredentials, .jwtBearer: []
    case .exchange(let source): [source.from] + (source.actor.map { [$0] } ?? [])
    }
  }
}
