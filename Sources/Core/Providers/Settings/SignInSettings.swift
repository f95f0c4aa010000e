public import FoundationEssentials
public import OAuth

/// Deviations of a provider's sign-in from the plain authorization code flow in a browser.
public struct SignInSettings: Sendable, Equatable {
  /// The browser returns the tokens (RFC 6749 §4.2). This must be enabled explicitly.
  public var isImplicit = false
  /// False: the code itself is the result of the login (``AuthorizationTraits/exchangesCodes``).
  public var exchangesCodes = true
  /// Only one login of this provider can be pending.
  public var isOneAtATime = false
  /// A code is accepted even if the response also contains an error.
  public var takesCodeFirst = false
  /// Parameters of the callback to keep with the grant (`realmId`).
  public var keepCallbackMembers: [String] = []
  /// The member of the token response that identifies the user if there is no ID token.
  public var identityMember: String?
  /// The supported values of `prompt`; empty: all values are sent.
  public var prompts: [String] = []
  public var native = Native()
  /// Sends user data in advance in a pushed request (RFC 9126).
  public var prefill: Prefill?
  /// The whole request stays in the URL next to `request_uri`; only the client identification and the hint are pushed.
  public var staysInFront = false
  /// Responses of other applications to the provider.
  public var bridges: [SignInBridge] = []
  /// The time limit for a sign-in.
  public var lifetime: Duration = .seconds(600)

  public init() {}

  /// The provider's applications on this machine.
  public struct Native: Sendable, Equatable {
    /// In the order to try.
    public var apps: [NativeApp] = []
    /// The subset of the values of `prompt` that they support; nil: all.
    public var prompts: [String]?
  }

  public enum Prefill: String, Sendable, CaseIterable {
    /// If the provider rejects it, the login continues without it and reports a warning.
    case lenient
    /// A rejection fails the login.
    case strict
  }
}

/// An application of the provider that signs users in.
public struct NativeApp: Sendable, Equatable {
  /// Its name in the configuration.
  public var name: String
  /// The URL that opens it.
  public var url: URL
  public var style: Style

  public enum Style: String, Sendable, CaseIterable {
    /// The same authorization request as in a browser.
    case oauth2
    /// See ``DropboxConnect``.
    case dropbox
  }

  public init(name: String, url: URL, style: Style = .oauth2) {
    self.name = name
    self.url = url
    self.style = style
  }
}

/// The provider's API, for authorised calls.
public struct APISettings: Sendable, Equatable {
  /// The base URL of relative calls.
  public var base: URL?
  /// Additional origins that calls may use.
  public var origins: [URL] = []
  /// The nearest addresses that calls may go to; nil: those of the provider.
  public var reach: AddressScope?
  /// The path to the error code in the body of a 401 response (`["error", ".tag"]`).
  public var errorPath: [String] = []
  /// The meaning of a 401 response by its code; any other code concerns the token (RFC 6750 §3.1).
  public var errors: [String: Meaning] = [:]

  public enum Meaning: String, Sendable, CaseIterable {
    /// The token is no longer accepted: refresh it.
    case refresh
    /// The grant lacks a permission that the call needs: the user must sign in again.
    case login
    /// The user's account at the provider is blocked.
    case blocked
  }
}

extension APISettings {
  /// The printable error code in the body; nil if there is none.
  func code(in response: HTTPResponse) -> String? {
    guard !errorPath.isEmpty, var value = JSON(message: response.body) else { return nil }
    for name in errorPath {
      guard let next = value.dictionary?[name] else { return nil }
      value = next
    }
    guard case .string(let code) = value, !code.isEmpty else { return nil }
    return code.printable(limit: 128)
  }
}
