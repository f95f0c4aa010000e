import BrokerAPI

/// The state of an account. It may be one that this version does not name.
public struct AccountState: RawRepresentable, Sendable, Hashable {
  public var rawValue: String
  public init(rawValue: String) { self.rawValue = rawValue }
}

/// An account that this process may see.
public struct Account: Sendable {
  public let account: String
  public let provider: String
  public let state: AccountState
  public let scopes: [String]
  /// When the access token expires, in Unix seconds; nil if unknown.
  public let expiresAt: Int64?

  init?(_ view: JSON) {
    guard let account = view["account"]?.string, let state = view["state"]?.string else { return nil }
    self.account = account
    self.state = AccountState(rawValue: state)
    provider = view["provider"]?.string ?? ""
    scopes = view["scopes"]?.array?.compactMap(\.string) ?? []
    expiresAt = view["expires_at"]?.integer
  }
}

/// A place to sign in.
public struct Destination: Sendable {
  public let kind: String
  /// To open; nil if the user types a code elsewhere.
  public let url: String?
  public let app: String?
  /// The code of the device authorization (RFC 8628 §3.2), and the page to type it at.
  public let userCode: String?
  public let verificationURI: String?

  init(_ place: JSON) {
    kind = place["kind"]?.string ?? ""
    url = place["url"]?.string
    app = place["app"]?.string
    userCode = place["user_code"]?.string
    verificationURI = place["verification_uri"]?.string
  }
}

/// How a login ended.
public struct LoginResult: Sendable {
  /// `completed`, or `action_required`.
  public let state: String
  public let account: Account?

  init(_ result: JSON) {
    state = result["state"]?.string ?? ""
    account = result["account"].flatMap { Account($0) }
  }
}
