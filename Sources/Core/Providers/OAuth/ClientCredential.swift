public import FoundationEssentials
public import OAuth

/// The configured client authentication. The audience of an assertion requires the metadata.
public enum ClientCredential: Sendable, Equatable {
  /// A public client.
  case none
  case basic(secret: Secret, encoding: ClientAuthentication.BasicEncoding)
  case post(secret: Secret)
  /// `private_key_jwt`, and with a shared key `client_secret_jwt` (RFC 7523 §2.2).
  case assertion(key: SigningKey, audience: ClientAssertion.Audience)
  /// `tls_client_auth` and `self_signed_tls_client_auth` (RFC 8705 §2); the certificate is in ``ProviderSettings/tls``.
  case mutualTLS

  /// - Parameter tokenEndpoint: nil if the provider has none; then an assertion is addressed to the issuer.
  public func authentication(issuer: String, tokenEndpoint: URL?) -> ClientAuthentication {
    switch self {
    case .none: .none
    case .basic(let secret, let encoding): .basic(secret: secret, encoding: encoding)
    case .post(let secret): .post(secret: secret)
    case .assertion(let key, let audience):
      .assertion(key: key, audience: audience.text(issuer: issuer, tokenEndpoint: tokenEndpoint))
    case .mutualTLS: .mutualTLS
    }
  }

  /// The registered names of the method (RFC 8414 §2). The provider must support one of them.
  public var methods: [String] {
    switch self {
    case .none: ["none"]
    case .basic: ["client_secret_basic"]
    case .post: ["client_secret_post"]
    // A key with a public half is not a shared key.
    case .assertion(let key, _): [key.publicJWK == nil ? "client_secret_jwt" : "private_key_jwt"]
    case .mutualTLS: ["tls_client_auth", "self_signed_tls_client_auth"]
    }
  }
}

extension ClientAssertion.Audience {
  fileprivate func text(issuer: String, tokenEndpoint: URL?) -> String? {
    switch self {
    case .tokenEndpoint: tokenEndpoint?.absoluteString ?? issuer
    case .issuer: issuer
    case .endpoint: nil
    case .fixed(let text): text
    }
  }
}
