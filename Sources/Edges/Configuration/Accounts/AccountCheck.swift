import Grants
import OAuth

/// Makes an account of a draft, with the checks across its keys.
struct AccountCheck {
  var name: AccountName
  var draft: AccountDraft
  var section: NamedSection
  var sources: Settings.Sources

  /// The account; nil, and a report, if its keys contradict each other.
  func account(report: inout ConfigurationReport) -> DeclaredAccount? {
    report.require(["provider", "grant"], in: section)
    if let resource = draft.resource, (try? RedirectURI(resource)) == nil {
      report.problem(at: section, "resource", "must be an absolute URI without a fragment")
    }
    guard let provider = draft.provider, let grant = draft.grant else { return nil }
    checkUses(grant, report: &report)
    let source: GrantSource?
    switch grant {
    case .clientCredentials: source = .clientCredentials
    case .jwtBearer: source = jwtBearer(report: &report).map(GrantSource.jwtBearer)
    case .tokenExchange: source = exchange(report: &report).map(GrantSource.exchange)
    }
    return source.map { source in
      DeclaredAccount(
        name: name, provider: provider, source: source, scopes: draft.scopes, resource: draft.resource,
        audience: grant == .clientCredentials ? draft.audience : nil)
    }
  }

  private func checkUses(_ grant: AccountDraft.Grant, report: inout ConfigurationReport) {
    for (key, _) in section.table.inOrder {
      guard Sections.grant(of: key).map({ $0 != grant }) ?? false else { continue }
      report.problem(at: section, key, "has no use with grant = \"\(grant.rawValue)\"", suggestion: "remove it")
    }
  }

  // MARK: JWT bearer

  private func jwtBearer(report: inout ConfigurationReport) -> JWTBearerSource? {
    let keys = KeyReader(title: section.title, sources: sources)
    guard ["key_file", "key_credential"].contains(where: { section[$0] != nil }) else {
      report.problem(
        "\(section.title) has no key to sign with", at: section.place, suggestion: "add key_file or key_credential")
      return nil
    }
    guard let text = keys.text("key", draft.key, section.table, report: &report) else { return nil }
    let google = GoogleServiceAccount(text)
    var draft = draft
    draft.key.id = draft.key.id ?? google?.keyID
    if let algorithm = draft.key.algorithm, algorithm.isSymmetric {
      report.problem(at: section, "algorithm", "is \"\(algorithm.rawValue)\", by which a private key does not sign")
      return nil
    }
    let key = keys.signingKey(google?.key ?? text, "key", draft.key, section.table, report: &report)
    guard let issuer = draft.issuer ?? google?.email else {
      report.require(["issuer"], in: section, suggestion: "write who asserts, as the provider knows it")
      return nil
    }
    guard let key else { return nil }
    return JWTBearerSource(
      key: key, issuer: issuer, subject: draft.subject, audience: draft.audience ?? google?.tokenURI,
      lifetime: draft.lifetime ?? .seconds(3600), scopeInAssertion: draft.scopeInAssertion ?? (google != nil))
  }

  // MARK: Token exchange

  private func exchange(report: inout ConfigurationReport) -> ExchangeSource? {
    guard let from = draft.from else {
      report.require(["from"], in: section, suggestion: "name the account whose token is traded")
      return nil
    }
    for (key, other) in [("from", from), ("actor", draft.actor)] where other == name {
      report.problem(at: section, key, "is the account itself")
      return nil
    }
    return ExchangeSource(
      from: from, actor: draft.actor, audience: draft.audience, requestedTokenType: draft.requestedTokenType)
  }
}

/// The JSON that Google gives for the key of a service account.
struct GoogleServiceAccount {
  var key: Secret
  var email: String?
  var keyID: String?
  var tokenURI: String?

  /// Nil where the text is something else.
  init?(_ text: Secret) {
    // Exposed to be read.
    guard let members = JSON(message: Array(text.exposed.utf8))?.dictionary,
      case .string(let key)? = members["private_key"]
    else { return nil }
    func member(_ name: String) -> String? {
      guard case .string(let value)? = members[name], !value.isEmpty else { return nil }
      return value
    }
    self.key = Secret(key)
    email = member("client_email")
    keyID = member("private_key_id")
    tokenURI = member("token_uri")
  }
}
