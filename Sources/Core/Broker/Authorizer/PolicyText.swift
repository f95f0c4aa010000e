import BrokerAPI
import Grants
import OAuth

// The policy as a text that is the same wherever and whenever it means the same, to be compared.

extension BrokerConfiguration {
  /// A digest of the rules, the exemptions, the credentials of units, the limits and the audit settings: equal digests
  /// at two starts or reloads mean equal policies. 16 hexadecimal digits.
  var policyDigest: String {
    let text = PolicyText(
      instance: policy.instance.rawValue, owner: policy.owner, rules: policy.rules.map(RuleText.init),
      credentials: credentials.offers.map(OfferText.init), byAccount: credentials.byAccount,
      rate: callerLimits.rate, burst: callerLimits.burst, refusalCost: callerLimits.refusalCost,
      recorded: audit.isEnabled, keep: audit.keep.milliseconds, most: audit.most)
    return digest(of: JSON(encoding: text).serialized())
  }
}

extension Rule {
  /// The rule's content. Its name, which may be its line in the file, has no effect.
  var meaning: String { JSON(encoding: RuleText(self)).text() }
}

private struct PolicyText: Encodable {
  var instance: String
  var owner: UInt32
  var rules: [RuleText]
  var credentials: [OfferText]
  var byAccount: Bool
  var rate: Int
  var burst: Int
  var refusalCost: Int
  var recorded: Bool
  /// In milliseconds.
  var keep: Int64
  var most: Int
}

/// The rule as users see it (`policy.rules`), without its name and its place: a member that is added there changes all
/// digests.
private struct RuleText: Encodable {
  var rule: PolicyRules.Rule
  var subordinates: Bool

  init(_ rule: Rule) {
    self.rule = .init(rule)
    self.rule.rule = ""
    self.rule.source = nil
    subordinates = rule.who.subordinates
  }
}

private struct OfferText: Encodable {
  var id: String
  var account: String
  var kind: String
  var units: [String]?
  var scopes: [String]?
  var resource: String?
  var audience: String?
  /// In milliseconds.
  var minimumTTL: Int64?

  init(_ offer: UnitCredentials.Offer) {
    id = offer.id
    account = offer.account.rawValue
    kind = offer.kind.rawValue
    units = offer.units?.sorted()
    scopes = offer.scopes?.sorted()
    resource = offer.resource
    audience = offer.audience
    minimumTTL = offer.minimumTTL?.milliseconds
  }
}
