import OAuth

/// Reads a secret from the file or the credential that a section names; what is wrong is said without the least of it.
struct SecretReader {
  /// The form of a secret.
  enum Shape {
    case line
    /// PEM or JSON, of many lines.
    case document
  }

  var title: String
  var sources: Settings.Sources

  /// The secret that `STEM_file` or `STEM_credential` names, if one of them does; what is wrong goes to the report.
  func read(
    _ stem: String, _ shape: Shape = .line, file path: String?, credential name: String?, _ table: [String: Item],
    report: inout ConfigurationReport
  ) -> Secret? {
    let (fileKey, credentialKey) = ("\(stem)_file", "\(stem)_credential")
    if let place = table[fileKey]?.place, table[credentialKey] != nil {
      report.problem(
        "\(title) has both \"\(fileKey)\" and \"\(credentialKey)\"", at: place, suggestion: "keep one of them")
      return nil
    }
    if let path, let place = table[fileKey]?.place {
      return read(path, shape, key: fileKey, at: place, isCredential: false, report: &report)
    }
    guard let name, let place = table[credentialKey]?.place else { return nil }
    let isName =
      name.utf8.count <= 255 && name != "." && name != ".." && !name.utf8.contains(UInt8(ascii: "/"))
    guard isName else {
      report.problem("\"\(credentialKey)\" in \(title) is not a name of a credential", at: place)
      return nil
    }
    guard let folder = sources.credentialsDirectory else {
      report.problem(
        "\"\(credentialKey)\" in \(title): this process was given no credentials", at: place,
        suggestion: "add LoadCredential= to the unit, or use \(fileKey)")
      return nil
    }
    return read("\(folder)/\(name)", shape, key: credentialKey, at: place, isCredential: true, report: &report)
  }

  private func read(
    _ path: String, _ shape: Shape, key: String, at place: FileLocation, isCredential: Bool,
    report: inout ConfigurationReport
  ) -> Secret? {
    // A credential's name may be the secret itself, put in the wrong place; a path is none.
    let subject = "\"\(key)\" in \(title): " + (isCredential ? "the credential" : path.printable(limit: 256))
    let file: ConfigurationFile
    do throws(ConfigurationFile.Failure) {
      file = try ConfigurationFile.read(path, limit: ConfigurationFile.secretLimit)
    } catch {
      let absent = isCredential ? "is not among those given to this process" : "does not exist"
      report.problem(
        "\(subject) \(error == .absent ? absent : error.text)", at: place,
        suggestion: isCredential && error == .absent ? "add it to the unit by LoadCredential=" : nil)
      return nil
    }
    // The service manager protects credentials by owner, mode or ACL, depending on its version.
    if !isCredential, isExposed(file) {
      report.problem(
        "\(subject) can be read or written by other users", at: place, suggestion: "run chmod 600 on it")
      return nil
    }
    guard var text = file.text else {
      report.problem("\(subject) is not UTF-8 text", at: place)
      return nil
    }
    while let last = text.last, last.isNewline { text.removeLast() }
    guard !text.isEmpty else {
      report.problem("\(subject) is empty", at: place)
      return nil
    }
    if let reason = shape.complaint(of: text) {
      report.problem("\(subject) has \(reason)", at: place)
      return nil
    }
    return Secret(text)
  }

  private func isExposed(_ file: ConfigurationFile) -> Bool {
    let allowed: UInt32 = sources.groups.contains(file.group) ? 0o040 : 0
    return file.mode & 0o077 & ~allowed != 0
  }
}

extension SecretReader.Shape {
  fileprivate func complaint(of text: String) -> String? {
    let scalars = text.unicodeScalars
    switch self {
    case .line:
      return scalars.contains { $0.value < 0x20 || $0.value == 0x7f }
        ? "more than one line, or control characters" : nil
    case .document:
      return scalars.contains { ($0.value < 0x20 && !"\t\n\r".unicodeScalars.contains($0)) || $0.value == 0x7f }
        ? "control characters" : nil
    }
  }
}
