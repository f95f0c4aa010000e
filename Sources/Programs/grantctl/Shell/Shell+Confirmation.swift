import BrokerAPI

/// Whoever waits at a terminal for a token is told where a person has to allow it first.
extension Shell {
  /// Looks why there is no answer, once it has not come for a while. To be cancelled when it is there; nil: nobody looks,
  /// or what is asked for is no release.
  func noticeOfConfirmation(_ method: String, of params: any Sendable) -> Task<Void, Never>? {
    guard terminal.isErrTTY, !isJSON, let account = (params as? any ReleaseParams)?.account else { return nil }
    return Task {
      guard (try? await Task.sleep(for: terminal.quietTime)) != nil else { return }
      let params = PolicyExplain.Params(account: account, method: method)
      let answer = try? await ask(PolicyExplain.self, params, on: connect()).value()
      guard answer?.allowed == true, answer?.confirm != nil, !Task.isCancelled else { return }
      terminal.note("Waiting for approval: \(command("approve")) (Ctrl-C gives up).")
    }
  }
}
