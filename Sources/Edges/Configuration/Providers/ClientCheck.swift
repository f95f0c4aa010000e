import OAuth
import Providers

/// The client's secret, key or certificate, and whether each of them is used.
struct ClientCheck {
  typealias Method = ProviderDraft.Method

  struct Outcome {
    var credential = ClientCredential.none
    /// If the client authenticates with it without sending it.
    var secret: Secret?
    var requestObjectKey: SigningKey?
  }

  var draft: ProviderDraft
  var section: NamedSection
  var keys: KeyReader

  private func firstPlace(_ names: [String]) -> FileLocation {
    names.lazy.compactMap { section[$0]?.place }.first ?? section.place
  }
  private func names(_ keys: [String]) -> Bool { keys.contains { section[$0] != nil } }

  private static let secretKeys = ["client_secret_file", "client_secret_credential"]
  private static let keyKeys = ["client_key_file", "client_key_credential"]
  private static let requestKeyKeys = ["request_object_key_file", "request_object_key_credential"]

  private var method: Method {
    if let method = draft.method { return method }
    if names(Self.secretKeys) { return .basic }
    if names(Self.keyKeys) { return .privateKeyJWT }
    return names(["tls_certificate_file"]) ? .tls : .none
  }

  func read(report: inout ConfigurationReport) -> Outcome {
    let secret = SecretReader(title: section.title, sources: keys.sources).read(
      "client_secret", file: draft.secretFile, credential: draft.secretCredential, section.table, report: &report)
    let key: SigningKey?
    if method == .secretJWT {
      key = sharedKey(secret, report: &report)
    } else {
      key = keys.signingKey("client_key", draft.clientKey, section.table, report: &report)
    }
    checkSecret(report: &report)
    checkKey(report: &report)
    checkCertificate(report: &report)
    checkUses(report: &report)
    var outcome = Outcome()
    outcome.credential = credential(secret, key)
    outcome.secret = method == .secretJWT ? secret : nil
    outcome.requestObjectKey = requestObjectKey(client: key, report: &report)
    return outcome
  }

  private func credential(_ secret: Secret?, _ key: SigningKey?) -> ClientCredential {
    switch method {
    case .none: .none
    case .basic: secret.map { .basic(secret: $0, encoding: .form) } ?? .none
    case .basicRaw: secret.map { .basic(secret: $0, encoding: .raw) } ?? .none
    case .post: secret.map { .post(secret: $0) } ?? .none
    case .secretJWT, .privateKeyJWT: key.map { .assertion(key: $0, audience: audience) } ?? .none
    case .tls, .selfSignedTLS: .mutualTLS
    }
  }

  private var audience: ClientAssertion.Audience {
    switch draft.assertionAudience {
    case nil, "token_endpoint": .tokenEndpoint
    case "issuer": .issuer
    case "endpoint": .endpoint
    case .some(let text): .fixed(text)
    }
  }

  /// HS256 unless the section says otherwise (OpenID Connect Core §9).
  private func sharedKey(_ secret: Secret?, report: inout ConfigurationReport) -> SigningKey? {
    guard let secret else { return nil }
    let algorithm = draft.clientKey.algorithm ?? .hs256
    guard algorithm.isSymmetric else {
      report.problem(
        at: section, "client_assertion_algorithm",
        "is \"\(algorithm.rawValue)\", and a client secret signs with HS256, HS384 or HS512")
      return nil
    }
    do throws(SigningKeyError) {
      return try SigningKey.shared(secret, algorithm: algorithm)
    } catch {
      keys.record(error, "client_secret", section.table, report: &report)
      return nil
    }
  }

  private func checkSecret(report: inout ConfigurationReport) {
    let isNamed = names(Self.secretKeys)
    if method.needsSecret, !isNamed {
      report.problem(
        at: section, "token_endpoint_auth_method", "is \"\(method.rawValue)\", and there is no client secret",
        suggestion: "add client_secret_file or client_secret_credential")
    } else if !method.needsSecret, isNamed {
      report.problem(
        "\(section.title) has a client secret, and \"token_endpoint_auth_method\" is \"\(method.rawValue)\"",
        at: section.location(of: "token_endpoint_auth_method"), suggestion: "remove one of them")
    }
  }

  private func checkKey(report: inout ConfigurationReport) {
    let isNamed = names(Self.keyKeys)
    if method == .privateKeyJWT, !isNamed {
      report.problem(
        at: section, "token_endpoint_auth_method", "is \"private_key_jwt\", and there is no client key",
        suggestion: "add client_key_file or client_key_credential")
    } else if isNamed, method != .privateKeyJWT, !signsWithClientKey {
      report.problem(
        "\(section.title) has a client key, and \"token_endpoint_auth_method\" is \"\(method.rawValue)\"",
        at: firstPlace(Self.keyKeys), suggestion: "write private_key_jwt there, or remove the key")
    }
    if method != .secretJWT, let algorithm = draft.clientKey.algorithm, algorithm.isSymmetric {
      report.problem(
        at: section, "client_assertion_algorithm", "is \"\(algorithm.rawValue)\", which is for client_secret_jwt alone")
    }
  }

  private var signsWithClientKey: Bool { draft.signsRequests && !names(Self.requestKeyKeys) }

  private func checkCertificate(report: inout ConfigurationReport) {
    guard method == .tls || method == .selfSignedTLS, !names(["tls_certificate_file"]) else { return }
    report.problem(
      at: section, "token_endpoint_auth_method", "is \"\(method.rawValue)\", and there is no certificate",
      suggestion: "add tls_certificate_file and tls_key_file")
  }

  /// A setting without effect is an error of its author.
  private func checkUses(report: inout ConfigurationReport) {
    let asserts = method == .secretJWT || method == .privateKeyJWT
    let hasKey = asserts || names(Self.keyKeys)
    let uses: [(key: String, isUsed: Bool, needs: String)] = [
      ("client_key_id", names(Self.keyKeys), "client_key_file or client_key_credential"),
      ("client_assertion_algorithm", hasKey, "client_key_file, or client_secret_jwt"),
      ("client_assertion_audience", asserts, "private_key_jwt or client_secret_jwt"),
      ("request_object_key_file", draft.signsRequests, "request_object = true"),
      ("request_object_key_credential", draft.signsRequests, "request_object = true"),
      ("request_object_key_id", names(Self.requestKeyKeys), "request_object_key_file"),
      ("request_object_algorithm", names(Self.requestKeyKeys), "request_object_key_file"),
    ]
    for use in uses where section[use.key] != nil && !use.isUsed {
      report.problem(at: section, use.key, "has no use without \(use.needs)", suggestion: "add that, or remove this")
    }
    if draft.assertionAudience == "issuer", section["issuer"] == nil {
      report.problem(
        at: section, "client_assertion_audience", "is \"issuer\", and there is none",
        suggestion: "add issuer, or write the audience itself")
    }
  }

  private func requestObjectKey(client: SigningKey?, report: inout ConfigurationReport) -> SigningKey? {
    guard draft.signsRequests else { return nil }
    if names(Self.requestKeyKeys) {
      return keys.signingKey("request_object_key", draft.requestKey, section.table, report: &report)
    }
    if client == nil, !names(Self.keyKeys), method != .secretJWT {
      report.problem(
        at: section, "request_object", "needs a key to sign with",
        suggestion: "add request_object_key_file or client_key_file")
    }
    return client
  }
}

extension ProviderDraft.Method {
  fileprivate var needsSecret: Bool {
    switch self {
    case .basic, .basicRaw, .post, .secretJWT: true
    case .none, .privateKeyJWT, .tls, .selfSignedTLS: false
    }
  }
}
