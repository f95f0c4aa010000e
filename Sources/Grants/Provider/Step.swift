public import OAuth

/// The next step of a conversation with a provider: the broker does it and goes on. Bounded by the broker.
public enum Step<Output: Sendable>: Sendable {
  case done(Output)
  case failed(ProviderFailure)
  /// Send this, and go on with the response and the moment it came.
  case send(HTTPRequest, then: @Sendable (HTTPResponse, Timestamp) -> Step<Output>)
  /// The same, going on also where no answer comes.
  case attempt(HTTPRequest, then: @Sendable (Result<HTTPResponse, ProviderFailure>, Timestamp) -> Step<Output>)
  /// Go on with the provider's signing keys; `unknown` names one that the known set lacks.
  case keys(unknown: String?, then: @Sendable (Result<JWKSet, ProviderFailure>, Timestamp) -> Step<Output>)
}

extension Step {
  /// It ended like this.
  public static func ended(_ end: Result<Output, ProviderFailure>) -> Self {
    switch end {
    case .success(let output): .done(output)
    case .failure(let failure): .failed(failure)
    }
  }

  /// How it ended; nil where something is still to be asked.
  public var end: Result<Output, ProviderFailure>? {
    switch self {
    case .done(let output): .success(output)
    case .failed(let failure): .failure(failure)
    case .send, .attempt, .keys: nil
    }
  }

  /// The same conversation with another end.
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

  /// The same conversation with another output.
  public func map<Other: Sendable>(_ change: @escaping @Sendable (Output) -> Other) -> Step<Other> {
    ending { $0.map(change) }
  }

  /// The same conversation with its failure told otherwise.
  public func mapFailure(_ change: @escaping @Sendable (ProviderFailure) -> ProviderFailure) -> Step {
    ending { $0.mapError(change) }
  }
}
