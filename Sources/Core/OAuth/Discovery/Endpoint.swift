public import FoundationEssentials

/// An endpoint by its metadata name (RFC 8414 §2).
public enum Endpoint: String, Sendable, CaseIterable {
  case authorization = "authorization_endpoint"
  case token = "token_endpoint"
  case keys = "jwks_uri"
  case userinfo = "userinfo_endpoint"
  case revocation = "revocation_endpoint"
  case introspection = "introspection_endpoint"
  case endSession = "end_session_endpoint"
  case pushedAuthorizationRequest = "pushed_authorization_request_endpoint"
  case deviceAuthorization = "device_authorization_endpoint"
  case registration = "registration_endpoint"

  /// An endpoint's URL: https (or http as for an issuer), with a DNS host, without user or fragment (RFC 6749 §3.1,
  /// §3.2); nil if the text is not valid. Also for endpoints from the configuration.
  public static func url(_ text: String, allowInsecureHTTP: Bool) -> URL? {
    guard let uri = URI(text), let host = uri.host, !host.isEmpty, !host.utf8.contains(UInt8(ascii: "%")),
      uri.user == nil, uri.fragment == nil,
      uri.isSafe(allowInsecureHTTP: allowInsecureHTTP)
    else { return nil }
    return URL(string: text, encodingInvalidCharacters: false)
  }
}

public enum EndpointError: Error, Equatable, Sendable, CustomStringConvertible {
  /// The metadata do not contain it.
  case missing(String)
  /// The metadata contain it, but with an invalid URL.
  case invalid(String, String)

  public var description: String {
    switch self {
    case .missing(let name):
      "the provider's metadata has no \(name): set it in the configuration, or do without this feature"
    case .invalid(let name, let text):
      "the provider's metadata has an unusable \(name) “\(text)”: it must be an https URL without a fragment"
    }
  }
}
