import FoundationEssentials
import Grants
import OAuth

/// The result of a signature verification.
enum Proof<Output: Sendable>: Sendable {
  case holds(Output)
  /// No known key with this name verifies it. The text is the error if the provider's current keys do not verify it
  /// either.
  case unknownKey(kid: String?, String)
  /// The error message for users.
  case fails(String)
}

extension OAuthProvider {
  /// Verifies a signature with the provider's signing keys. If no key has the requested name, fetches the keys again
  /// and retries once, since the provider may have rotated them. A failed verification is `invalid`.
  func proving<Output: Sendable, End: Sendable>(
    _ prove: @escaping @Sendable (JWKSet, Timestamp) -> Proof<Output>,
    then: @escaping @Sendable (Result<Output, ProviderFailure>) -> Step<End>
  ) -> Step<End> {
    proving(unknown: nil, prove, then)
  }

  private func proving<Output: Sendable, End: Sendable>(
    unknown: String?, _ prove: @escaping @Sendable (JWKSet, Timestamp) -> Proof<Output>,
    _ then: @escaping @Sendable (Result<Output, ProviderFailure>) -> Step<End>
  ) -> Step<End> {
    .keys(unknown: unknown) { keys, now in
      let set: JWKSet
      switch keys {
      case .success(let known): set = known
      case .failure(let failure): return then(.failure(failure))
      }
      switch prove(set, now) {
      case .holds(let output): return then(.success(output))
      case .unknownKey(let kid, _) where unknown == nil: return proving(unknown: kid ?? "", prove, then)
      case .unknownKey(_, let message), .fails(let message): return then(.failure(.invalid(message: message, nil)))
      }
    }
  }

  /// The expected claims of a JWT that the provider signs for this client.
  ///
  /// - Parameter offered: the signature algorithms in the metadata.
  func checks(_ metadata: ServerMetadata, offered: [String]?, at now: Timestamp) -> JWTChecks {
    JWTChecks(
      issuer: metadata.issuer, issuerRule: settings.server.issuerRule, clientID: settings.client.id,
      algorithms: IDToken.algorithms(configured: settings.token.idToken.algorithms, metadata: offered), now: now,
      tolerance: settings.token.idToken.tolerance, clientSecret: clientSecret)
  }

  /// The client's secret, if it has one. It is the key of symmetric signatures if the settings allow them (OpenID
  /// Connect Core §10.1).
  var clientSecret: Secret? {
    switch settings.client.credential {
    case .basic(let secret, _), .post(let secret): secret
    case .none, .assertion, .mutualTLS: settings.client.secret
    }
  }

  /// Begins the exchange at an endpoint, or returns the failure if the endpoint is missing.
  func at<Output: Sendable>(
    _ endpoint: Endpoint, _ metadata: ServerMetadata, _ begin: (URL) -> Step<Output>
  ) -> Step<Output> {
    do throws(ProviderFailure) {
      return begin(try self.endpoint(endpoint, metadata))
    } catch {
      return .failed(error)
    }
  }

  /// Reads a response; `meaning` translates its error.
  func read<Output: Sendable>(
    otherwise meaning: (ResponseError) -> ProviderFailure, _ answer: () throws(ResponseError) -> Output
  ) -> Step<Output> {
    do throws(ResponseError) {
      return .done(try answer())
    } catch {
      return .failed(meaning(error))
    }
  }
}
