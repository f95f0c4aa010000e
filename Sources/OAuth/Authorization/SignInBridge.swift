public import FoundationEssentials

/// Takes another application's answer to the provider: the provider's page has a person sign in at an application (a
/// social network's), which calls back by a custom scheme of ours, and the browser brings what it said to the provider.
public struct SignInBridge: Sendable, Equatable {
  /// The scheme that the application calls, in lower case.
  public var scheme: String
  /// Where the provider takes the answer.
  public var forward: URL
  /// What is added where the answer was in the query, and where it was in the fragment.
  public var inQuery: [String: String]
  public var inFragment: [String: String]

  public init(scheme: String, forward: URL, inQuery: [String: String] = [:], inFragment: [String: String] = [:]) {
    self.scheme = scheme.lowercased()
    self.forward = forward
    self.inQuery = inQuery
    self.inFragment = inFragment
  }

  /// Where the browser goes on with it; nil: the address is not of this bridge. Code and state are the provider's own, and
  /// mean nothing here; nothing else of the address is handed on.
  public func forwarded(_ address: ReturnedAddress) -> Result<URL, CallbackError>? {
    guard address.scheme == scheme else { return nil }
    return Result { () throws(CallbackError) in try next(address) }
  }

  private func next(_ address: ReturnedAddress) throws(CallbackError) -> URL {
    guard address.text.utf8.count <= AuthorizationResponse.longestURL else { throw .tooLarge }
    let isInQuery = address.value("state").map { !$0.isEmpty } ?? false
    func value(_ name: String) -> String? {
      let value = isInQuery ? address.value(name) : address.fragmentValue(name) ?? address.value(name)
      return value.flatMap { $0.isEmpty ? nil : $0 }
    }
    guard let state = value("state") else { throw .missingState }
    if let error = value("error") {
      throw .denied(OAuthError(code: OAuthErrorCode(rawValue: error), description: value("error_description")))
    }
    guard let code = value("code") else { throw .neitherCodeNorError }
    guard code.utf8.count <= AuthorizationResponse.longestCode, state.utf8.count <= AuthorizationResponse.longestState
    else { throw .tooLarge }
    let own = (isInQuery ? inQuery : inFragment).sorted { $0.key < $1.key }.map { Parameter($0.key, $0.value) }
    do throws(AuthorizationRequestError) {
      return try AuthorizationRequest.url(
        at: forward, adding: [Parameter("code", code), Parameter("state", state)] + own)
    } catch {
      throw .unreadable
    }
  }
}
