public import BrokerAPI
public import Grants

/// What programs get that speak HTTP to the broker (`[[handle]]`, `[[cloud]]`).
public struct LoopbackSettings: Sendable, Equatable {
  public var handles: [Handle] = []
  public var clouds: [Cloud] = []

  public init() {}

  /// A name by which programs ask the token endpoint for an account, as their client id or refresh token. It is no secret,
  /// and of no use to who may not use the account.
  public struct Handle: Sendable, Equatable {
    public var name: String
    public var account: AccountName
    /// The scopes that its tokens have; nil: all that was granted.
    public var scopes: [String]?
    /// The resource that its tokens are for (RFC 8707); nil: the account's.
    public var resource: String?

    public init(name: String, account: AccountName, scopes: [String]? = nil, resource: String? = nil) {
      self.name = name
      self.account = account
      self.scopes = scopes
      self.resource = resource
    }
  }

  /// An account as a cloud's SDKs find it on a machine of that cloud.
  public struct Cloud: Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
      /// Container credentials: those of a role that the account's token is exchanged for at STS.
      case aws(Role)
      /// The metadata server of a virtual machine.
      case gcp(project: String?, email: String)
      /// A managed identity. The resource is that of the account's own token; for others the broker asks for
      /// `RESOURCE/.default`.
      case azure(resource: String?)
    }

    public struct Role: Sendable, Hashable {
      public var arn: String
      /// An https address, or an http one of this machine.
      public var endpoint: String
      /// The account's token that STS gets.
      public var token: TokenKind
      public var sessionName: String
      /// Seconds.
      public var duration: Int

      public init(
        arn: String, endpoint: String, token: TokenKind = .accessToken, sessionName: String, duration: Int
      ) {
        self.token = token
        self.arn = arn
        self.endpoint = endpoint
        self.sessionName = sessionName
        self.duration = duration
      }
    }

    /// In its address: `/aws/NAME`, `/azure/NAME`.
    public var name: String
    public var account: AccountName
    public var kind: Kind

    public init(name: String, account: AccountName, kind: Kind) {
      self.name = name
      self.account = account
      self.kind = kind
    }
  }
}
