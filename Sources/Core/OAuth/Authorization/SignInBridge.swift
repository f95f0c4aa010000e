public import FoundationEssentials

/// Forwards another application's response to the provider. The provider's page lets the user sign in with an
/// application (such as a social network's), which calls back by one of our custom schemes; the browser then takes the
/// response to the provider.
public struct SignInBridge: Sendable, Equatable {
  /// The scheme of the application's callback, in lower case.
  public var scheme: String
  /// The provider's URL for the response.
  public var forward: URL
  /// The parameters to add to a response in the query, and to one in the fragment.
  public var inQuery: [String: String]
  public var inFragment: [String: String]

  public init(scheme: String, forward: URL, inQuery: [String: String] = [:], inFragment: [String: String] = [:]) {
    self.scheme = scheme.lowercased()
    self.forward = forward
    self.inQuery = inQuery
    self.inFragment = inFragment
  }

  /// The URL that the browser opens next; nil: the callback does not belong to this bridge. Only code and state are
  /// forwarded. They belong to the provider and have no meaning here.
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
