/// Why a key cannot be read or cannot sign. Texts never contain the key.
public enum SigningKeyError: Error, Sendable, Equatable {
  case tooLarge
  case unreadable(String)
  /// The key is encrypted with a passphrase, which the broker cannot ask for.
  case encrypted
  case publicKeyOnly
  /// An RSA key of fewer than 2048 bits (RFC 7518 §3.3).
  case weak(bits: Int)
  case wrongAlgorithm(String, key: String)
  case unknownAlgorithm(String)
  case emptySecret
  /// The library failed to sign. It gives no reason.
  case refused
}

extension SigningKeyError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .tooLarge: "the key is larger than \(SigningKey.maximumBytes) bytes: it is not a single key"
    case .unreadable(let what):
      "the key cannot be read: \(what); it must be a private key in PEM (PKCS#8, PKCS#1 or SEC1) or a private JWK"
    case .encrypted:
      "the key has a passphrase: decrypt it (openssl pkey), and make the file readable only for this service"
    case .publicKeyOnly: "the key is a public one: the private key that belongs to it is needed to sign"
    case .weak(let bits): "the RSA key has \(bits) bits: at least 2048 are needed (RFC 7518 §3.3); make a new one"
    case .wrongAlgorithm(let name, let key): "\(name) cannot be signed with \(key): choose another algorithm or key"
    case .unknownAlgorithm(let name):
      "the key is for the algorithm “\(name)”, which is not understood: use RS256 to RS512, PS256 to PS512, ES256, "
        + "ES384, ES512 or EdDSA"
    case .emptySecret: "the client secret is empty, and cannot sign"
    case .refused: "the key could not be used to sign: make a new one, and register it at the provider"
    }
  }
}
