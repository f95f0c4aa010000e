import Grants
import OAuth

/// Who issues a provider's tokens, and to which client. What was issued is sent to that server alone, also after a reload
/// that moves the provider to another one: the name of a provider says nothing of the server.
struct TokenIssuer: Hashable, Sendable {
  private let issuer: String?
  /// The token endpoint's origin, or the system's address.
  private let server: String?
  private let clientID: String

  init(_ provider: any Provider) {
    let description = provider.description
    (issuer, server, clientID) = (description.issuer, description.server, description.clientID)
  }

  private init(issuer: String?, server: String?, clientID: String) {
    (self.issuer, self.server, self.clientID) = (issuer, server, clientID)
  }

  /// No provider's.
  static let unknown = TokenIssuer(issuer: nil, server: nil, clientID: "")

  /// ``StoredAccount/issuer``.
  var fingerprint: String { Secret(text).fingerprint }

  /// For what is kept longer than the configuration. Different for different issuers.
  var text: String {
    [issuer, server, clientID].map { $0.map { "\($0.utf8.count):\($0)" } ?? "-" }.joined(separator: " ")
  }
}

/// The issuers that a provider of one name has had in this run, and since when each.
///
/// A token has the time at which the request for it was sent, on disk too. It says which of them issued the token. What is
/// from before this run is taken to be of the first one.
struct TokenIssuers {
  /// More are not remembered: who issued what is older is unknown.
  static let most = 16

  /// The first has no time where it is that of the start.
  private var entries: [(issuer: TokenIssuer, since: Timestamp?)]

  init(_ issuer: TokenIssuer) { entries = [(issuer, nil)] }

  mutating func configure(_ issuer: TokenIssuer, at now: Timestamp) {
    guard entries.last?.issuer != issuer else { return }
    if entries.count >= Self.most { entries.removeFirst() }
    entries.append((issuer, now))
  }

  /// Who issued what was asked for at that moment.
  func issuer(at moment: Timestamp, now: Timestamp) -> TokenIssuer {
    if entries.count == 1 { return entries[0].issuer }
    // A moment that has not come was stamped by a wrong clock.
    guard moment <= now else { return .unknown }
    return entries.last { entry in entry.since.map { $0 <= moment } ?? true }?.issuer ?? .unknown
  }

  /// Somebody set the clock: what this run stamped moves with it.
  mutating func clockStepped(by step: Duration) {
    for index in entries.indices { entries[index].since = entries[index].since.map { $0 + step } }
  }
}

/// Where a provider's requests go: its settings, and the metadata that belong to them.
///
/// Read anew after each wait. Where that is not possible, as in the middle of a conversation, all that is sent goes to
/// these endpoints, and is of their issuer.
struct ProviderEndpoints: Sendable {
  let connection: ProviderConnection
  let provider: any Provider
  let settings: UInt64
  let metadata: ServerMetadata

  var issuer: TokenIssuer { TokenIssuer(provider) }
}
