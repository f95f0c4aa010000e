public import OAuth

/// The next step of an exchange with a provider: the broker executes it and continues. The broker limits the number of
/// steps.
public enum Step<Output: Sendable>: Sendable {
  case done(Output)
  case failed(ProviderFailure)
  /// Send this, and continue with the response and the time it arrived.
  case send(HTTPRequest, then: @Sendable (HTTPResponse, Timestamp) -> Step<Output>)
  /// The same, but also continue if no response arrives.
  case attempt(HTTPRequest, then: @Sendable (Result<HTTPResponse, ProviderFailure>, Timestamp) -> Step<Output>)
  /// Continue with the provider's signing keys; `unknown` names one that the known set lacks.
  case keys(unknown: String?, then: @Sendable (Result<JWKSet, ProviderFailure>, Timestamp) -> Step<Output>)
}

extension Step {
  /// The step for a finished exchange.
  public static func ended(_ end: Result<Output, ProviderFailure>) -> Self {
    switch end {
    case .success(let output): .done(output)
    case .failure(let failure): .failed(failure)
    }
  }

  /// The result; nil if a further request is needed.
  public var end: Result<Output, ProviderFailure>? {
    switch self {
    case .done(let output): .success(output)
    case .failed(let failure): .failure(failure)
    case .send, .attempt, .keys: nil
    }
  }

  /// The same exchange with a transformed result.
  public func ending<Other: Sendable>(
    _ change: @escaping @Sendable (Result<Output, ProviderFailure>) -> Result<Other, ProviderFailure>
  ) -> Step<Other> {
    switch self {
    case .done(let output): .ended(change(.success(output)))
    case .failed(let failure): .ended(change(.failure(failure)))
    case .send(let request, let then): .send(request) { then($0, $1).ending(change) }
    case .attempt(let request, let then): .attempt(request) { then($0, $1).ending(change) }
    case .keys(let unknown, let then): .keys(unknown: unknown) { then($0, $1).ending(change) }
    }
  }

  /// The same exchange with a transformed output.
  public func map<Other: Sendable>(_ change: @escaping @Sendable (Output) -> Other) -> Step<Other> {
    ending { $0.map(change) }
  }

  /// The same exchange with a transformed failure.
  public func mapFailure(_ change: @escaping @Sendable (ProviderFailure) -> ProviderFailure) -> Step {
    ending { $0.mapError(change) }
  }
}
