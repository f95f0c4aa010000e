import FoundationEssentials
import OAuth

/// Reads the private keys that sections name.
struct KeyReader {
  var title: String
  var sources: Settings.Sources

  private var secrets: SecretReader { SecretReader(title: title, sources: sources) }

  /// The signing key of `STEM_file` or `STEM_credential`, if one exists.
  func signingKey(
    _ stem: String, _ draft: KeyDraft, _ table: [String: Item], report: inout ConfigurationReport
  ) -> SigningKey? {
    text(stem, draft, table, report: &report).flatMap { signingKey($0, stem, draft, table, report: &report) }
  }

  /// The content of the key's file or credential.
  func text(_ stem: String, _ draft: KeyDraft, _ table: [String: Item], report: inout ConfigurationReport) -> Secret? {
    secrets.read(stem, .document, file: draft.file, credential: draft.credential, table, report: &report)
  }

  /// The key that is written in a text.
  func signingKey(
    _ text: Secret, _ stem: String, _ draft: KeyDraft, _ table: [String: Item], report: inout ConfigurationReport
  ) -> SigningKey? {
    do throws(SigningKeyError) {
      return try SigningKey.parse(text, algorithm: draft.algorithm, kid: draft.id)
    } catch {
      record(error, stem, table, report: &report)
      return nil
    }
  }

  /// The TLS settings of a provider in addition to the system's authorities; nil: none.
  func tls(_ draft: TLSDraft, _ table: [String: Item], report: inout ConfigurationReport) -> TLSChoice? {
    let authorities = certificates("tls_ca_file", draft.authoritiesFile, table, report: &report)
    let certificates = certificates("tls_certificate_file", draft.certificateFile, table, report: &report)
    let key = secrets.read(
      "tls_key", .document, file: draft.keyFile, credential: draft.keyCredential, table, report: &report)
    let hasCertificate = table["tls_certificate_file"] != nil
    let keyPlace = table["tls_key_file"]?.place ?? table["tls_key_credential"]?.place
    if let place = table["tls_certificate_file"]?.place, keyPlace == nil {
      report.problem(
        "\(title) has a certificate and no key for it", at: place, suggestion: "add tls_key_file or tls_key_credential")
    } else if let keyPlace, !hasCertificate {
      report.problem(
        "\(title) has the key of a certificate and no certificate", at: keyPlace, suggestion: "add tls_certificate_file"
      )
    }
    // Exposed to see whether it is one.
    if let keyPlace, let key, !key.exposed.contains("PRIVATE KEY-----") {
      report.problem("the key of tls_certificate_file in \(title) is not a private key in PEM", at: keyPlace)
    }
    guard authorities != nil || certificates != nil else { return nil }
    return TLSChoice(authorities: authorities, certificates: certificates, key: key)
  }

  private func certificates(
    _ key: String, _ path: String?, _ table: [String: Item], report: inout ConfigurationReport
  ) -> Data? {
    guard let path, let place = table[key]?.place else { return nil }
    let subject = "\"\(key)\" in \(title): \(path.printable(limit: 256))"
    let file: ConfigurationFile
    do throws(ConfigurationFile.Failure) {
      file = try ConfigurationFile.read(path, limit: ConfigurationFile.sizeLimit)
    } catch {
      report.problem("\(subject) \(error == .absent ? "does not exist" : error.text)", at: place)
      return nil
    }
    // A user who writes there chooses the trusted authorities.
    guard file.mode & 0o002 == 0 else {
      report.problem("\(subject) can be written by all users", at: place, suggestion: "run chmod o-w on it")
      return nil
    }
    guard let text = file.text, text.contains("-----BEGIN CERTIFICATE-----") else {
      report.problem("\(subject) has no certificate in PEM in it", at: place)
      return nil
    }
    return Data(file.bytes)
  }

  /// An algorithm that does not fit is the fault of the key that names it.
  func record(_ error: SigningKeyError, _ stem: String, _ table: [String: Item], report: inout ConfigurationReport) {
    let keys = ["\(stem)_file", "\(stem)_credential", "client_secret_file", "client_secret_credential"]
    let name = keys.first { table[$0] != nil } ?? "\(stem)_file"
    let place = table[name]?.place ?? FileLocation(file: sources.file)
    report.problem("\"\(name)\" in \(title): \(error)", at: place)
  }
}
