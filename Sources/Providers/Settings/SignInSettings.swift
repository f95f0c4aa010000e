public import FoundationEssentials
public import OAuth

/// How people sign in at a provider, beyond the plain authorization code in a browser.
public struct SignInSettings: Sendable, Equatable {
  /// Tokens come by the browser (RFC 6749 §4.2), which is allowed by name only.
  public var isImplicit = false
  /// False: the code itself is what a login is for (``AuthorizationTraits/exchangesCodes``).
  public var exchangesCodes = true
  /// One login of this provider waits at a time.
  public var isOneAtATime = false
  /// A code counts also where there is an error beside it.
  public var takesCodeFirst = false
  /// Parameters of the callback to keep with the grant (`realmId`).
  public var keepCallbackMembers: [String] = []
  /// The member of the token response that says who signed in, where there is no ID token.
  public var identityMember: String?
  /// The values of `prompt` that the provider knows; empty: all are sent.
  public var prompts: [String] = []
  /// Those of them that its applications take; nil: all.
  public var nativePrompts: [String]?
  /// The provider's applications on this machine, in the order to try.
  public var apps: [NativeApp] = []
  /// Takes what is known of the person ahead, by a pushed request (RFC 9126).
  public var prefill: Prefill?
  /// The whole request stays in the address beside `request_uri`; only who asks, and the hint, is pushed.
  public var staysInFront = false
  /// Other applications' answers to the provider.
  public var bridges: [SignInBridge] = []

  public init() {}

  public enum Prefill: String, Sendable, CaseIterable {
    /// Where the provider does not take it the login goes on without, and says so.
    case lenient
    /// Then there is no login.
    case strict
  }
}

/// An application of the provider's that signs people in.
public struct NativeApp: Sendable, Equatable {
  /// Its name in the configuration.
  public var name: String
  /// What opens it.
  public var url: URL
  public var style: Style

  public enum Style: String, Sendable, CaseIterable {
    /// The authorization request as the browser would have it.
    case oauth2
    /// As ``DropboxConnect`` says.
    case dropbox
  }

  public init(name: String, url: URL, style: Style = .oauth2) {
    self.name = name
    self.url = url
    self.style = style
  }
}

/// The provider's own API, as far as authorised calls go.
public struct APISettings: Sendable, Equatable {
  /// What calls may be relative to.
  public var base: URL?
  /// Where else they may go.
  public var origins: [URL] = []
  /// The members to descend through to the error's code in a 401's body (`["error", ".tag"]`).
  public var errorPath: [String] = []
  /// What a 401 with that code means; any other is about the token (RFC 6750 §3.1).
  public var errors: [String: Meaning] = [:]

  public enum Meaning: String, Sendable, CaseIterable {
    /// The token is no longer taken: it is refreshed.
    case refresh
    /// The grant lacks what the call needs: a person has to sign in.
    case login
    /// The person's account at the provider is blocked.
    case blocked
  }

  public init() {}
}

extension APISettings {
  /// The error's code in the body, fit for people; nil where there is none.
  func code(in response: HTTPResponse) -> String? {
    guard !errorPath.isEmpty, var value = JSONValue(response.body) else { return nil }
    for name in errorPath {
      guard let next = value.members?[name] else { return nil }
      value = next
    }
    guard case .string(let code) = value, !code.isEmpty else { return nil }
    return code.printable(limit: 128)
  }
}
