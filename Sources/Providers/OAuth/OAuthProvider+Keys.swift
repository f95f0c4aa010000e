import FoundationEssentials
import Grants
import OAuth

/// How the proof of something signed went.
enum Proof<Output: Sendable>: Sendable {
  case holds(Output)
  /// No known key of this name verifies it. The text is the error if the provider's current keys do not either.
  case unknownKey(kid: String?, String)
  /// For people.
  case fails(String)
}

extension OAuthProvider {
  /// Proves something with the provider's signing keys. Where none has the name that it asks for, once more with those
  /// that the provider has then: it may have rotated them. What does not hold is `invalid`.
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

  /// What a JWT that the provider signs for this client must agree with.
  ///
  /// - Parameter offered: the algorithms that the metadata name for it.
  func checks(_ metadata: ServerMetadata, offered: [String]?, at now: Timestamp) -> JWTChecks {
    JWTChecks(
      issuer: metadata.issuer, issuerRule: settings.issuerRule, clientID: settings.clientID,
      algorithms: IDToken.algorithms(configured: settings.idToken.algorithms, metadata: offered), now: now,
      tolerance: settings.idToken.tolerance, clientSecret: clientSecret)
  }

  /// The client's secret, where it has one: the key of symmetric signatures, where the settings allow those (OpenID Connect
  /// Core §10.1).
  var clientSecret: Secret? {
    switch settings.client {
    case .basic(let secret, _), .post(let secret): secret
    case .none, .assertion, .mutualTLS: settings.clientSecret
    }
  }

  /// The conversation that begins at an endpoint; the failure where there is none.
  func at<Output: Sendable>(
    _ endpoint: Endpoint, _ metadata: ServerMetadata, _ begin: (URL) -> Step<Output>
  ) -> Step<Output> {
    do throws(ProviderFailure) {
      return begin(try self.endpoint(endpoint, metadata))
    } catch {
      return .failed(error)
    }
  }

  /// Reads an answer, or says what its refusal means.
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
