import BrokerAPI

extension Shell {
  /// The secret in an option's file; `-` is standard input. Nil: the option was not given.
  func secret(_ what: String, from path: String?) async throws(Failure) -> SecretText? {
    guard let path else { return nil }
    return try await SecretInput(shell: self, what: what).read(from: path)
  }

  /// The certificates in an option's file. Nil: the option was not given.
  func certificates(from path: String?) throws(Failure) -> String? {
    guard let path else { return nil }
    switch terminal.files.text(path) {
    case .unreadable(let reason): throw Failure(.usage, "the certificates cannot be read from \(path): \(reason)")
    case .text(let text, _): return text
    }
  }
}
