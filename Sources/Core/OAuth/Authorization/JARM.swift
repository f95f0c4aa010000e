/// Authorization responses that the provider signs (JWT Secured Authorization Response Mode, OpenID FAPI JARM).
public enum JARM {
  public typealias Checks = JWTChecks

  /// The authorization response in `response` (JARM §2.1), after verification that this provider recently issued it for
  /// this client (§2.4). The checks of the callback follow: ``AuthorizationResponse/code(for:)``.
  ///
  /// After ``JARMError/token(_:)`` with `unknownKey`, fetch the keys again once and parse again.
  public static func parse(
    _ compact: Secret, checks: Checks, keys: JWKSet
  ) throws(JARMError) -> AuthorizationResponse {
    let claims: [String: JSON]
    do throws(JWTError) {
      let token = try SignedJWT.parse(compact)
      try token.verify(try token.registeredClaims(requiring: "iss", "aud", "exp"), checks, keys: keys)
      claims = token.claims
    } catch {
      throw .token(error)
    }
    var values: [String: String] = [:]
    for (name, value) in claims where !registered.contains(name) {
      switch value {
      case .string(let text): values[name] = text
      case .number(let text): values[name] = text
      // These types cannot be query parameters.
      case .null, .bool, .array, .object: continue
      }
    }
    do throws(CallbackError) {
      return try AuthorizationResponse(values)
    } catch {
      throw .callback(error)
    }
  }

  /// The claimed `state` of a signed response, not verified: used to find the login before the provider's keys are
  /// fetched.
  public static func claimedState(_ compact: Secret) -> Secret? {
    guard let token = try? SignedJWT.parse(compact), case .string(let state)? = token.claims["state"],
      state.utf8.count <= AuthorizationResponse.longestState
    else { return nil }
    return Secret(state)
  }

  /// The claims of the token itself. `iss` is kept: it is also part of the response (RFC 9207 §2.4).
  private static let registered: Set<String> = ["aud", "exp", "iat", "nbf", "jti", "response"]
}

/// Why a signed authorization response was rejected. Any site can cause this error, so it leaves the login pending.
public enum JARMError: Error, Sendable, Equatable, CustomStringConvertible {
  case token(JWTError)
  case callback(CallbackError)

  public var description: String {
    switch self {
    case .token(let error): error.description(of: "the provider's signed answer (response)")
    case .callback(let error): error.description
    }
  }
}
