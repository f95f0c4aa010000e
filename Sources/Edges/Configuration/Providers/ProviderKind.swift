/// How a provider speaks: `kind` of its section. It decides which other keys there are.
enum ProviderKind: String, Sendable, CaseIterable {
  case oidc, oauth2, vms, zephr

  /// The keys of a kind that speaks no OAuth; nil: it has those of ``Sections/provider``.
  var section: Section<SystemDraft>? {
    switch self {
    case .oidc, .oauth2: nil
    case .vms: Sections.vms
    case .zephr: Sections.zephr
    }
  }

  /// In the order of the reference.
  static var sections: [Section<SystemDraft>] { allCases.compactMap(\.section) }

  /// The names of its keys.
  var keys: [String] { section?.keys.map(\.name) ?? Sections.provider.keys.map(\.name) }

  /// The message for a key of another kind.
  func lacks(_ key: String) -> String? {
    let others = Self.allCases.filter { $0.keys.contains(key) }.map { "\"\($0.rawValue)\"" }
    guard !others.isEmpty else { return nil }
    return "is for kind \(others.joined(separator: " or ")), and this is kind \"\(rawValue)\""
  }
}
