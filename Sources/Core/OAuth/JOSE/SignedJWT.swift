import FoundationEssentials

/// A signed JWT in compact form (RFC 7515 §7.1, RFC 7519): the common part of all tokens that a provider signs.
struct SignedJWT: Sendable, Equatable {
  /// The unchanged token.
  let raw: Secret
  let algorithm: String
  let kid: String?
  /// The header's `typ`.
  let type: String?
  let claims: [String: JSON]
  /// The unchanged claims.
  let payload: Data
  private let signature: Data

  /// The maximum size of a token, in bytes. Group and role claims can make it large.
  static let maximumBytes = 64 << 10

  /// Parses header and claims without verification.
  static func parse(_ compact: Secret) throws(JWTError) -> SignedJWT {
    // Exposed to be read.
    let text = compact.exposed
    guard text.utf8.count <= maximumBytes else { throw .tooLarge }
    let segments = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map(Substring.init)
    guard segments.count == 3 else {
      throw .malformed(
        segments.count == 5
          ? "it is encrypted, which is not supported" : "it has not three segments but \(segments.count)")
    }
    guard let header = decodeBase64URL(segments[0]).flatMap({ JSON(message: $0) })?.dictionary else {
      throw .malformed("its header is not a JSON object")
    }
    guard let payload = decodeBase64URL(segments[1]), let claims = JSON(message: payload)?.dictionary else {
      throw .malformed("its claims are not a JSON object")
    }
    guard let signature = decodeBase64URL(segments[2]) else { throw .malformed("its signature is not base64url") }
    guard header["crit"] == nil else { throw .criticalHeader }
    let token: SignedJWT
    do throws(WrongMember) {
      token = SignedJWT(
        raw: compact, algorithm: try header.requiredText("alg"), kid: try header.text("kid"),
        type: try header.text("typ"), claims: claims, payload: payload, signature: signature)
    } catch {
      throw .malformed("\(error.name) is not \(error.wanted)")
    }
    if token.algorithm.lowercased() == "none" { throw .unsigned }
    return token
  }

  /// Verifies that the provider signed the token with an allowed algorithm.
  ///
  /// - Parameters:
  ///   - algorithms: from ``IDToken/algorithms(configured:metadata:)``; empty: RS256.
  ///   - clientSecret: the key of the symmetric algorithms; nil refuses them.
  /// - Returns: the algorithm.
  func verifySignature(
    algorithms: [String], clientSecret: Secret?, keys: JWKSet
  ) throws(JWTError) -> SignatureAlgorithm {
    let refusal = JWTError.algorithmNotAllowed(algorithm.printable(limit: 32))
    guard let known = SignatureAlgorithm(rawValue: algorithm) else { throw refusal }
    let allowed = algorithms.isEmpty ? [SignatureAlgorithm.rs256.rawValue] : algorithms
    guard allowed.contains(where: { SignatureAlgorithm(rawValue: $0)?.canonical == known.canonical }) else {
      throw refusal
    }
    // Exposed to be verified: the signature covers the text itself (RFC 7515 §5.2).
    let text = raw.exposed
    let message = Data(text[..<(text.lastIndex(of: ".") ?? text.endIndex)].utf8)
    if known.isSymmetric {
      guard let clientSecret, !clientSecret.isEmpty else { throw refusal }
      guard known.verify(signature, of: message, secret: clientSecret) else { throw .badSignature }
      return known
    }
    let named = keys.keys.filter { $0.fits(known, kid: kid) }
    // Some servers name the key only in the token, not in the set (RFC 7517 §4.5: it is optional there).
    let candidates = named.isEmpty ? keys.keys.filter { $0.kid == nil && $0.fits(known, kid: nil) } : named
    guard !candidates.isEmpty else { throw .unknownKey(kid: kid.map { $0.printable(limit: 128) }) }
    if candidates.contains(where: { known.verify(signature, of: message, with: $0) }) { return known }
    // If only the token or only the set names the key, the token may be signed with a key that is newer than the set.
    throw kid == nil || named.isEmpty ? .unknownKey(kid: kid.map { $0.printable(limit: 128) }) : .badSignature
  }
}

/// Why a signed JWT was rejected. Texts from the token are limited in length and escaped.
public enum JWTError: Error, Sendable, Equatable {
  case tooLarge
  case malformed(String)
  /// A critical header parameter that is not supported (RFC 7515 §4.1.11).
  case criticalHeader
  /// `alg: none`.
  case unsigned
  case algorithmNotAllowed(String)
  /// No published key fits. Fetch the keys again once and retry.
  case unknownKey(kid: String?)
  case badSignature
  case wrongIssuer(expected: String, found: String)
  case wrongAudience
  case expired(by: Duration)
  case notYetValid(by: Duration)
  case issuedInFuture(by: Duration)

  /// The error in a sentence about `noun`, such as “the logout token”.
  func description(of noun: String) -> String {
    switch self {
    case .tooLarge: "\(noun) is larger than \(SignedJWT.maximumBytes) bytes"
    case .malformed(let what): "\(noun) is malformed: \(what); report it to the provider"
    case .criticalHeader: "\(noun) asks for an extension (crit) that is not understood"
    case .unsigned: "\(noun) is not signed; choose a signature algorithm in the client's registration"
    case .algorithmNotAllowed(let name):
      "\(noun) is signed with \(name), which is not allowed for this provider; allow it in the configuration, or "
        + "change the client's registration"
    case .unknownKey(let kid):
      "\(noun) is signed with a key\(kid.map { " “\($0)”" } ?? "") that the provider does not publish"
    case .badSignature: "\(noun)'s signature is wrong: it was altered, or another key made it"
    case .wrongIssuer(let expected, let found): "\(noun) is from “\(found)”, not from “\(expected)”"
    case .wrongAudience: "\(noun) is for another client; check client_id"
    case .expired(let by):
      "\(noun) had expired \(Self.seconds(by)) s before it came: your clock is off by \(Self.seconds(by)) s "
        + "(ahead) or more, or the provider's is behind; set the clock (timedatectl)"
    case .notYetValid(let by), .issuedInFuture(let by):
      "\(noun) is from \(Self.seconds(by)) s in the future: your clock is off by \(Self.seconds(by)) s (behind), "
        + "or the provider's is ahead; set the clock (timedatectl)"
    }
  }

  /// Whole seconds, rounded up.
  static func seconds(_ duration: Duration) -> Int64 { (min(duration.milliseconds, .max - 999) + 999) / 1000 }
}

extension JWTError: CustomStringConvertible {
  public var description: String { description(of: "the token") }
}
