import Synchronization

/// What the control API does, for tests in the same process.
extension DemoServer {
  /// The requests since the start or the last reset, the newest last; bounded.
  public var requests: [SeenRequest] {
    provider.ledger.withLock { $0.log }
  }

  /// A new signing key; the old ones stay published or vanish. Its identifier.
  @discardableResult
  public func rotateKeys(_ algorithm: Algorithm = .rs256, keepingOld: Bool = true) throws -> String {
    try translated { () throws(ControlFailure) in try provider.rotateKeys(algorithm, keepingOld: keepingOld) }
  }

  /// Every nonce for DPoP proofs given so far is no longer good.
  public func rotateNonce() {
    _ = provider.ledger.withLock { $0.rotateNonce() }
  }

  /// A person answers a device that waits; without a code, the newest one. Throws `Misuse` where none waits.
  public func answerDevice(_ userCode: String? = nil, allow: Bool = true, user: String = "alice") throws {
    try translated { () throws(ControlFailure) in
      try provider.answerDevice(userCode, decision: allow ? "allow" : "deny", user: user)
    }
  }

  /// A client known from now on, in place of one with its identifier.
  public func register(_ client: Client) {
    provider.add(client)
  }

  public func register(_ account: ServiceAccount) {
    provider.add(account)
  }

  /// Posts a logout token to a client's back channel (Back-Channel Logout §2.5). Throws `Misuse` where there is
  /// nobody to log out, or the address is not on loopback.
  public func sendLogout(_ logout: Logout) async throws -> LogoutAnswer {
    do throws(ControlFailure) {
      return try await provider.send(logout)
    } catch {
      throw Misuse(description: error.description)
    }
  }

  private func translated<Value>(_ work: () throws(ControlFailure) -> Value) throws(Misuse) -> Value {
    do throws(ControlFailure) {
      return try work()
    } catch {
      throw Misuse(description: error.description)
    }
  }
}
