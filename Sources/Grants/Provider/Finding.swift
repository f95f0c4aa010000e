public import OAuth

/// What one check of a provider came to, for a person to read. What is not well says what to do about it.
public struct Finding: Sendable, Equatable {
  /// What is checked without asking for a token.
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
    /// There was nothing to check, or what it needs is missing.
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

/// What a provider's settings and its server's metadata say of each other.
public struct Examination: Sendable, Equatable {
  /// One for each name but ``Finding/Name/configuration`` and ``Finding/Name/keys``, as far as the answer reaches.
  public var findings: [Finding]
  /// The metadata that would be in force; nil where the answer is none that can be used.
  public var metadata: ServerMetadata?

  public init(findings: [Finding], metadata: ServerMetadata?) {
    self.findings = findings
    self.metadata = metadata
  }
}

// A provider that has no judgement of its own.
extension Provider {
  public var clockTolerance: Duration { .seconds(30) }

  public func examineSettings() -> Finding { Finding(.configuration, .ok, description.kind) }

  public func probe() -> HTTPRequest? { discovery() }

  public func examine(_ response: HTTPResponse?) -> Examination {
    do throws(ProviderFailure) {
      return Examination(findings: [], metadata: try metadata(from: response))
    } catch {
      let hint = "Mend [provider.\(name)] in the configuration, then `grantctl reload`."
      return Examination(findings: [Finding(.discovery, .failed(hint: hint), error.message)], metadata: nil)
    }
  }

  public func examine(_ keys: JWKSet, metadata: ServerMetadata) -> Finding {
    Finding(.keys, .ok, "\(keys.keys.count) keys")
  }
}
