import FoundationEssentials

/// Client authentication at the token endpoint (RFC 6749 §2.3): exactly one method, without a fallback to another,
/// since each attempt would use up the code or refresh token.
public enum ClientAuthentication: Sendable, Hashable {
  /// A public client: `client_id` in the body.
  case none
  /// `client_secret_basic`: id and secret only in the header.
  case basic(secret: Secret, encoding: BasicEncoding)
  /// `client_secret_post`: id and secret in the body.
  case post(secret: Secret)
  /// `private_key_jwt` and `client_secret_jwt` (RFC 7523 §2.2): a signed assertion in the body, made for each request.
  /// Without an audience it is for the URL of the request.
  case assertion(key: SigningKey, audience: String?)
  /// `tls_client_auth` and `self_signed_tls_client_auth` (RFC 8705 §2): the connection authenticates the client,
  /// `client_id` is in the body.
  case mutualTLS

  /// The encoding of id and secret before base64.
  public enum BasicEncoding: String, Sendable, Codable, CaseIterable {
    /// Form-urlencoded (RFC 6749 §2.3.1).
    case form
    /// The same, with `client_id` in the body too: some servers look up the client by it before they read the header.
    case formWithID = "form_with_id"
    /// Unchanged, for servers that never decode.
    case raw
  }

  var isInHeader: Bool {
    switch self {
    case .basic: true
    case .none, .post, .assertion, .mutualTLS: false
    }
  }

  func parameters(clientID: String) -> [Parameter] {
    switch self {
    // A service account's assertion needs no client (RFC 7521 §4.1).
    case .none: clientID.isEmpty ? [] : [Parameter("client_id", clientID)]
    case .assertion, .mutualTLS: [Parameter("client_id", clientID)]
    case .basic(_, .formWithID): [Parameter("client_id", clientID)]
    case .basic(_, .form), .basic(_, .raw): []
    // Exposed to be sent.
    case .post(let secret): [Parameter("client_id", clientID), Parameter("client_secret", secret.exposed)]
    }
  }

  func signatures(clientID: String) -> [HTTPRequest.Signature] {
    switch self {
    case .assertion(let key, let audience): [.clientAssertion(key: key, clientID: clientID, audience: audience)]
    case .none, .basic, .post, .mutualTLS: []
    }
  }

  func headers(clientID: String) -> [HTTPRequest.Header] {
    guard case .basic(let secret, let encoding) = self else { return [] }
    // Exposed to be sent.
    let pair = [clientID, secret.exposed].map { encoding == .raw ? $0 : FormEncoding.encode($0) }
    let credentials = Data(pair.joined(separator: ":").utf8).base64EncodedString()
    return [.init("Authorization", "Basic \(credentials)")]
  }
}

/// The format of a request body.
public enum BodyFormat: String, Sendable, Codable, CaseIterable {
  /// `application/x-www-form-urlencoded` (RFC 6749 §4.1.3).
  case form
  /// `application/json`, which some providers require.
  case json

  func encode(_ parameters: [Parameter]) -> Data {
    switch self {
    case .form: return Data(FormEncoding.encode(parameters).utf8)
    case .json:
      let members = Dictionary(grouping: parameters, by: \.name).mapValues { group in
        group.count == 1 ? JSON.string(group[0].value) : .array(group.map { .string($0.value) })
      }
      return Data(JSON.object(members).serialized(sorted: true))
    }
  }

  var mediaType: String {
    switch self {
    case .form: "application/x-www-form-urlencoded"
    case .json: "application/json"
    }
  }
}

extension HTTPRequest {
  /// An authenticated request of a client. Extra headers never replace existing ones.
  static func post(
    _ parameters: [Parameter], purpose: Purpose, to endpoint: URL, clientID: String, client: ClientAuthentication,
    format: BodyFormat = .form, extraHeaders: [Header] = []
  ) -> HTTPRequest {
    var headers: [Header] = [.init("Accept", "application/json"), .init("Content-Type", format.mediaType)]
    headers += client.headers(clientID: clientID)
    let taken = Set(headers.map { $0.name.lowercased() })
    headers += extraHeaders.filter { !taken.contains($0.name.lowercased()) }
    let body = format.encode(parameters + client.parameters(clientID: clientID))
    var request = HTTPRequest(purpose: purpose, method: "POST", url: endpoint, headers: headers, body: body)
    request.signatures = client.signatures(clientID: clientID)
    return request
  }
}
