public import OAuth

/// The result of one check of a provider, for users. A failed check includes a hint.
public struct Finding: Sendable, Equatable {
  /// The checks that need no token.
  public enum Name: Sendable, Equatable {
    case configuration
    case discovery
    case issuer
    case endpoints
    case keys
    case grantTypes
    case clientAuthentication
    case pkce
    case scopes
  }

  public enum Result: Sendable, Equatable {
    case ok
    case warning(hint: String)
    case failed(hint: String)
    /// There was nothing to check, or a precondition is missing.
    case skipped
  }

  public var name: Name
  public var result: Result
  public var message: String

  public init(_ name: Name, _ result: Result, _ message: String) {
    self.name = name
    self.result = result
    self.message = message
  }
}

/// The comparison of a provider's settings with its server's metadata.
public struct Examination: Sendable, Equatable {
  /// One for each name except ``Finding/Name/configuration`` and ``Finding/Name/keys``, as far as the response allows.
  public var findings: [Finding]
  /// The metadata that would be used; nil if the response contains none that are usable.
  public var metadata: ServerMetadata?

  public init(findings: [Finding], metadata: ServerMetadata?) {
    self.findings = findings
    self.metadata = metadata
  }
}

// Defaults for a provider without its own checks.
extension Provider {
  public var clockTolerance: Duration { .seconds(30) }

  public func examineSettings() -> Finding { Finding(.configuration, .ok, description.kind) }

  public func probe() -> HTTPRequest? { discovery() }

  public func examine(_ response: HTTPResponse?) -> Examination {
    do throws(ProviderFailure) {
      return Examination(findings: [], metadata: try metadata(from: response))
    } catch {
      return Examination(findings: [Finding(.discovery, .failed(hint: correction), error.message)], metadata: nil)
    }
  }

  public func examine(_ keys: JWKSet, metadata: ServerMetadata) -> Finding {
    Finding(.keys, .ok, "\(keys.keys.count) keys")
  }
}
