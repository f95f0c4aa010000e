import OAuth

/// Reads a client secret; what is wrong is said without the least of it.
struct ClientSecret {
  var title: String
  var sources: Settings.Sources

  /// The secret that the section names, if it names one; what is wrong goes to the report.
  func read(_ draft: ProviderDraft, _ table: [String: Item], report: inout Report) -> Secret? {
    if let place = table["client_secret_file"]?.place, table["client_secret_credential"] != nil {
      report.problem(
        "\(title) has both \"client_secret_file\" and \"client_secret_credential\"", at: place,
        suggestion: "keep one of them")
      return nil
    }
    if let path = draft.secretFile, let place = table["client_secret_file"]?.place {
      return read(path, key: "client_secret_file", at: place, isCredential: false, report: &report)
    }
    guard let name = draft.secretCredential, let place = table["client_secret_credential"]?.place else { return nil }
    let isName =
      name.utf8.count <= 255 && name != "." && name != ".." && !name.utf8.contains(UInt8(ascii: "/"))
    guard isName else {
      report.problem("\"client_secret_credential\" in \(title) is no name of a credential", at: place)
      return nil
    }
    guard let folder = sources.credentialsDirectory else {
      report.problem(
        "\"client_secret_credential\" in \(title): this process was given no credentials", at: place,
        suggestion: "add LoadCredential= to the unit, or use client_secret_file")
      return nil
    }
    return read(
      "\(folder)/\(name)", key: "client_secret_credential", at: place, isCredential: true, report: &report)
  }

  private func read(
    _ path: String, key: String, at place: Place, isCredential: Bool, report: inout Report
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
    // The service manager guards credentials by owner, mode or ACL, whichever its version prefers.
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
    guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7f }) else {
      report.problem("\(subject) has more than one line, or control characters", at: place)
      return nil
    }
    return Secret(text)
  }

  private func isExposed(_ file: ConfigurationFile) -> Bool {
    let allowed: UInt32 = sources.groups.contains(file.group) ? 0o040 : 0
    return file.mode & 0o077 & ~allowed != 0
  }
}
