public import FoundationEssentials

/// The authorization request (RFC 6749 §4.1.1), with PKCE (RFC 7636 §4.3), resource indicators (RFC 8707 §2), rich
/// authorization requests (RFC 9396 §2) and OpenID Connect's parameters (Core §3.1.2.1).
public struct AuthorizationRequest: Sendable {
  public var responseType = "code"
  public var clientID: String
  public var redirectURI: RedirectURI
  public var scopes: [String]
  public var scopeSeparator: String
  public var state: Secret
  public var nonce: Secret?
  /// The code challenge, always by S256; nil: none is sent.
  public var challenge: String?
  public var resources: [String]
  public var prompt: String?
  public var loginHint: String?
  /// The response mode (OAuth 2.0 Multiple Response Types §2.1): `query.jwt` and similar modes request a signed
  /// response.
  public var responseMode: String?
  /// The maximum number of seconds since the user's last sign-in.
  public var maxAge: Int64?
  public var acrValues: [String] = []
  public var uiLocales: [String] = []
  /// A JSON object (OpenID Connect Core §5.5).
  public var claims: String?
  /// A JSON array (RFC 9396 §2).
  public var authorizationDetails: String?
  /// The thumbprint of the key that the code must be bound to (RFC 9449 §10).
  public var dpopThumbprint: String?
  /// Provider-specific parameters. A name that the request already has is an error.
  public var extra: [Parameter]

  public init(
    clientID: String, redirectURI: RedirectURI, scopes: [String], scopeSeparator: String = " ", state: Secret,
    nonce: Secret? = nil, challenge: String?, resources: [String] = [], prompt: String? = nil,
    loginHint: String? = nil, extra: [Parameter] = []
  ) {
    self.clientID = clientID
    self.redirectURI = redirectURI
    self.scopes = scopes
    self.scopeSeparator = scopeSeparator
    self.state = state
    self.nonce = nonce
    self.challenge = challenge
    self.resources = resources
    self.prompt = prompt
    self.loginHint = loginHint
    self.extra = extra
  }

  /// The URL to open. It keeps the endpoint's own query (RFC 6749 §3.1). Only `resource` may occur more than once.
  public func url(at endpoint: URL) throws(AuthorizationRequestError) -> URL {
    try Self.url(at: endpoint, adding: parameters())
  }

  /// All parameters, in order, with state and nonce exposed.
  func parameters() throws(AuthorizationRequestError) -> [Parameter] {
    var result = [Parameter("response_type", responseType), Parameter("client_id", clientID)]
    result.append(Parameter("redirect_uri", redirectURI.rawValue))
    if !scopes.isEmpty { result.append(Parameter("scope", scopes.joined(separator: scopeSeparator))) }
    // Exposed to be sent: state and nonce travel through the user agent.
    result.append(Parameter("state", state.exposed))
    if let nonce { result.append(Parameter("nonce", nonce.exposed)) }
    if let challenge {
      result += [Parameter("code_challenge", challenge), Parameter("code_challenge_method", "S256")]
    }
    for resource in resources {
      guard ResourceIndicator.isValid(resource) else { throw .invalidResource(resource.printable(limit: 512)) }
      result.append(Parameter("resource", resource))
    }
    if let prompt, !prompt.isEmpty { result.append(Parameter("prompt", prompt)) }
    if let loginHint, !loginHint.isEmpty { result.append(Parameter("login_hint", loginHint)) }
    result += try furtherParameters() + extra
    try Self.checkUnique(result)
    return result
  }

  private func furtherParameters() throws(AuthorizationRequestError) -> [Parameter] {
    if let claims, JSON(message: claims.utf8)?.dictionary == nil { throw .notJSON("claims", "an object") }
    if let authorizationDetails, JSON(message: authorizationDetails.utf8)?.array == nil {
      throw .notJSON("authorization_details", "an array")
    }
    let values: [(String, String?)] = [
      ("response_mode", responseMode), ("max_age", maxAge.map(String.init)),
      ("acr_values", acrValues.joined(separator: " ")), ("ui_locales", uiLocales.joined(separator: " ")),
      ("claims", claims), ("authorization_details", authorizationDetails), ("dpop_jkt", dpopThumbprint),
    ]
    return values.compactMap { name, value in value.flatMap { $0.isEmpty ? nil : Parameter(name, $0) } }
  }

  private static func checkUnique(_ parameters: [Parameter]) throws(AuthorizationRequestError) {
    var seen: Set<String> = []
    for parameter in parameters where !seen.insert(parameter.name).inserted && parameter.name != "resource" {
      throw .duplicateParameter(parameter.name.printable(limit: 128))
    }
  }

  static func url(at endpoint: URL, adding parameters: [Parameter]) throws(AuthorizationRequestError) -> URL {
    guard let uri = URI(endpoint.absoluteString), let existing = FormEncoding.decode(uri.query ?? "") else {
      throw .unusableEndpoint(endpoint.absoluteString.printable(limit: 512))
    }
    guard uri.fragment == nil else { throw .unusableEndpoint(endpoint.absoluteString.printable(limit: 512)) }
    try checkUnique(existing + parameters)
    let text = endpoint.absoluteString
    let joint = uri.query == nil ? "?" : text.hasSuffix("?") || text.hasSuffix("&") ? "" : "&"
    let query = FormEncoding.query(parameters)
    guard let url = URL(string: text + joint + query, encodingInvalidCharacters: false) else {
      throw .unusableEndpoint(text.printable(limit: 512))
    }
    return url
  }
}

extension AuthorizationRequest: Redacted {
  /// Extra parameters may contain personal data.
  public var description: String { "authorization request of client \(clientID)" }
}

public enum AuthorizationRequestError: Error, Equatable, Sendable, CustomStringConvertible {
  case duplicateParameter(String)
  case invalidResource(String)
  case unusableEndpoint(String)
  /// A parameter that is not JSON text of the required type.
  case notJSON(String, String)
  case cannotSign(SigningKeyError)

  public var description: String {
    switch self {
    case .duplicateParameter(let name):
      "the authorization request would have the parameter “\(name)” twice: remove it from the extra parameters or from "
        + "the endpoint's query"
    case .invalidResource(let text):
      "the resource “\(text)” is not an absolute URI without a fragment (RFC 8707 §2)"
    case .unusableEndpoint(let text):
      "the authorization endpoint “\(text)” cannot be used: it must be a URL without a fragment (RFC 6749 §3.1)"
    case .notJSON(let name, let kind): "the parameter “\(name)” of the authorization request is not \(kind) in JSON"
    case .cannotSign(let error): "the authorization request cannot be signed: \(error)"
    }
  }
}
