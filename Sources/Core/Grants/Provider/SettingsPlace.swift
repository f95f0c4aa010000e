public import OAuth

// The place of a provider's settings, for hints.

extension ProviderName {
  /// The header of its section in TOML: `[provider.google]`, `[provider."id.example"]`.
  public var section: String {
    let isBare = rawValue.utf8.allSatisfy {
      (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D
        || $0 == 0x5F
    }
    return "[provider.\(isBare ? rawValue : "\"\(rawValue)\"")]"
  }
}

extension Provider {
  /// The section for a key, as in "set `KEY` in …". A provider that the broker registered has none yet: then the text
  /// includes the keys that a new section needs.
  public var section: String {
    guard let registration else { return name.section }
    let client =
      registration.isPublic
      ? "client_id = \"\(description.clientID.printable(limit: 256))\"" : "a client that you register yourself"
    return "a new section \(name.section) with kind = \"\(description.kind)\", "
      + "issuer = \"\(registration.issuer)\" and \(client), which replaces the registration"
  }

  /// The next step if the provider's settings are wrong: a sentence.
  public var correction: String {
    registration == nil
      ? "Correct \(name.section) in the configuration, then run `grantctl reload`."
      : "Write \(section). Then run `grantctl reload`."
  }
}

/// The registration of a provider that the broker made (RFC 7591).
public struct ProviderRegistration: Sendable, Equatable {
  public var issuer: Issuer
  /// The client has no secret.
  public var isPublic: Bool

  public init(issuer: Issuer, isPublic: Bool) {
    self.issuer = issuer
    self.isPublic = isPublic
  }
}
