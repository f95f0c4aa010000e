import BrokerAPI

/// What the doctor found, in groups.
struct DoctorReport: Sendable {
  struct Item: Sendable, Equatable {
    var name: String
    var result: CheckResult
    var message: String
    var hint: String?

    init(_ name: String, _ result: CheckResult, _ message: String, hint: String? = nil) {
      self.name = name
      self.result = result
      self.message = message
      self.hint = hint
    }
  }

  /// What the items of a group are about.
  enum Subject: Sendable, Equatable {
    case daemon
    case provider(String)
    case account(String, provider: String)
    /// Accounts that have nothing to say.
    case wellAccounts(provider: String)

    var title: String {
      switch self {
      case .daemon: "Daemon"
      case .provider(let name): "Provider \(name)"
      case .account(let name, let provider): "Account \(name) (\(provider))"
      case .wellAccounts(let provider): "Accounts (\(provider))"
      }
    }
  }

  struct Group: Sendable, Equatable {
    var subject: Subject
    var items: [Item]
  }

  var groups: [Group] = []

  private static let indent = "        "
  /// More accounts of a provider that are well are one line for people.
  private static let mostWell = 8
  /// Names that are more than words with lines between them.
  private static let names = ["pkce": "PKCE", "redirect_uri": "redirect URI"]

  /// Names the users whose numbers the texts have.
  mutating func name(by users: UserNames) {
    for group in groups.indices {
      for item in groups[group].items.indices {
        groups[group].items[item].message = users.named(groups[group].items[item].message)
        groups[group].items[item].hint = groups[group].items[item].hint.map(users.named)
      }
    }
  }

  private var items: [Item] { groups.flatMap(\.items) }
  func count(_ result: CheckResult) -> Int { items.filter { $0.result == result }.count }

  /// `14 checks, 1 warning, 0 failures`.
  var summary: String {
    func counted(_ count: Int, _ word: String) -> String { "\(count) \(word)\(count == 1 ? "" : "s")" }
    let looked = items.count - count(.skipped)
    return [counted(looked, "check"), counted(count(.warning), "warning"), counted(count(.failed), "failure")]
      .joined(separator: ", ")
  }

  /// `width`: the terminal's columns; nil: 80. `adapt`: puts into a hint the options that reach the same broker.
  func lines(width: Int?, colour: Bool, adapt: (String) -> String) -> [String] {
    var lines: [String] = []
    let columns = max(24, (width ?? 80) - Self.indent.count)
    for group in folded {
      lines.append(SafeText.line(group.subject.title))
      for item in Self.gathered(group.items) {
        let text = "\(item.name): \(item.message)"
        let wrapped = SafeText.lines(text).flatMap { SafeText.wrapped($0, columns: columns) }
        let tag = "  " + item.result.cell.padded(to: 6, colour: colour)
        lines.append(tag + (wrapped.first ?? ""))
        lines += wrapped.dropFirst().map { Self.indent + $0 }
        guard let hint = item.hint else { continue }
        let hints = SafeText.lines(adapt(hint)).flatMap { SafeText.wrapped($0, columns: columns - 2) }
        for (index, line) in hints.enumerated() { lines.append(Self.indent + (index == 0 ? "→ " : "  ") + line) }
      }
      lines.append("")
    }
    return lines + [summary]
  }

  /// Without the many accounts that are well; each provider's are one group in the place of the first.
  private var folded: [Group] {
    var well: [String: Int] = [:]
    for group in groups { if let provider = group.wellProvider { well[provider, default: 0] += 1 } }
    var told: Set<String> = []
    return groups.compactMap { group in
      guard let provider = group.wellProvider, let count = well[provider], count > Self.mostWell else { return group }
      guard told.insert(provider).inserted else { return nil }
      return Group(
        subject: .wellAccounts(provider: provider), items: [Item("all others", .ok, "\(count) accounts are well")])
    }
  }

  /// With their names for people; what was skipped for one reason is one line.
  private static func gathered(_ items: [Item]) -> [Item] {
    var gathered: [Item] = []
    for var item in items {
      item.name = names[item.name] ?? item.name.replacing("_", with: " ")
      if item.result == .skipped, item.hint == nil,
        let index = gathered.firstIndex(where: { $0.result == .skipped && $0.message == item.message })
      {
        gathered[index].name += ", \(item.name)"
      } else {
        gathered.append(item)
      }
    }
    return gathered
  }

  func json(adapt: (String) -> String) -> JSON {
    var checks: [JSON] = []
    for group in groups {
      for item in group.items {
        var members = group.subject.members
        members.append(.init(name: "name", value: .string(item.name)))
        members.append(.init(name: "result", value: .string(item.result.rawValue)))
        members.append(.init(name: "message", value: .string(item.message)))
        if let hint = item.hint { members.append(.init(name: "hint", value: .string(adapt(hint)))) }
        checks.append(.object(members))
      }
    }
    return [
      "ok": .bool(count(.failed) == 0), "warnings": .integer(Int64(count(.warning))),
      "failures": .integer(Int64(count(.failed))), "checks": .array(checks),
    ]
  }
}

extension DoctorReport.Group {
  /// The provider of an account that has nothing to say.
  fileprivate var wellProvider: String? {
    guard case .account(_, let provider) = subject, items.allSatisfy({ $0.result == .ok || $0.result == .skipped })
    else {
      return nil
    }
    return provider
  }
}

extension DoctorReport.Subject {
  fileprivate var members: [JSON.Member] {
    switch self {
    case .daemon: [.init(name: "about", value: "daemon")]
    case .provider(let name):
      [.init(name: "about", value: "provider"), .init(name: "provider", value: .string(name))]
    case .wellAccounts(let provider):
      [.init(name: "about", value: "account"), .init(name: "provider", value: .string(provider))]
    case .account(let name, let provider):
      [
        .init(name: "about", value: "account"), .init(name: "provider", value: .string(provider)),
        .init(name: "account", value: .string(name)),
      ]
    }
  }
}

extension CheckResult {
  fileprivate var cell: Cell {
    switch self {
    case .ok: Cell("ok", .good)
    case .warning: Cell("warn", .attention)
    case .failed: Cell("FAIL", .bad)
    case .skipped: Cell("skip")
    }
  }
}
