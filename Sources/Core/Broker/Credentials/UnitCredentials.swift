public import BrokerAPI
public import Grants

/// What units may load as credentials (`LoadCredential=` from the broker's socket).
public struct UnitCredentials: Sendable, Equatable {
  /// `[[credential]]`: what there is under an id.
  public struct Offer: Sendable, Equatable {
    public var id: String
    public var account: AccountName
    public var kind: TokenKind
    /// The units that may load it, `*` standing for any run of characters; nil: any whose file names it.
    public var units: [String]?
    /// The requested scopes of the token; nil: all granted ones.
    public var scopes: [String]?
    /// The resource that the token is for (RFC 8707); nil: the account's own.
    public var resource: String?
    /// The audience that the token is for; nil: the account's own.
    public var audience: String?
    /// The minimum remaining lifetime of the token; nil: as for any caller.
    public var minimumTTL: Duration?

    public init(
      id: String, account: AccountName, kind: TokenKind = .accessToken, units: [String]? = nil,
      scopes: [String]? = nil, resource: String? = nil, audience: String? = nil, minimumTTL: Duration? = nil
    ) {
      self.audience = audience
      self.kind = kind
      self.id = id
      self.account = account
      self.units = units
      self.scopes = scopes
      self.resource = resource
      self.minimumTTL = minimumTTL
    }
  }

  /// The prefix of an id that names an account directly.
  public static let accountPrefix = "grantd."
  /// What such an id ends with if it names the account's ID token.
  public static let idTokenSuffix = ".id_token"

  public var offers: [Offer]
  /// Whether ids may name accounts themselves: `grantd.ACCOUNT`.
  public var byAccount: Bool

  public init(offers: [Offer] = [], byAccount: Bool = true) {
    self.offers = offers
    self.byAccount = byAccount
  }

  /// The value of the id: the configured one, else the account of that name.
  func offer(_ id: String) -> Offer? {
    if let offer = offers.first(where: { $0.id == id }) { return offer }
    guard byAccount, id.hasPrefix(Self.accountPrefix) else { return nil }
    var name = id.dropFirst(Self.accountPrefix.count)
    let isIDToken = name.hasSuffix(Self.idTokenSuffix)
    if isIDToken { name = name.dropLast(Self.idTokenSuffix.count) }
    return AccountName(rawValue: String(name)).map {
      Offer(id: id, account: $0, kind: isIDToken ? .idToken : .accessToken)
    }
  }
}
