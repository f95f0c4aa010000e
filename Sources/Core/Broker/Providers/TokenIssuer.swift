import Grants
import OAuth

/// The issuer of a provider's tokens, and its client. Tokens are sent only to that server, even after a reload that
/// moves the provider: a provider's name does not identify a server.
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

  /// For data that outlive the configuration. Different for different issuers.
  var text: String {
    [issuer, server, clientID].map { $0.map { "\($0.utf8.count):\($0)" } ?? "-" }.joined(separator: " ")
  }
}

/// The issuers of a provider's name in this run, each with its start time.
///
/// A token has the time of its request, on disk too, which identifies its issuer. Earlier tokens are assigned to the
/// first issuer.
struct TokenIssuers {
  /// Earlier ones are dropped: the issuer of older tokens is unknown.
  static let most = 16

  /// The first has no time where it is that of the start.
  private var entries: [(issuer: TokenIssuer, since: Timestamp?)]

  init(_ issuer: TokenIssuer) { entries = [(issuer, nil)] }

  mutating func configure(_ issuer: TokenIssuer, at now: Timestamp) {
    guard entries.last?.issuer != issuer else { return }
    if entries.count >= Self.most { entries.removeFirst() }
    entries.append((issuer, now))
  }

  /// The issuer of an answer to a request at that moment.
  func issuer(at moment: Timestamp, now: Timestamp) -> TokenIssuer {
    if entries.count == 1 { return entries[0].issuer }
    // A moment that has not come was stamped by a wrong clock.
    guard moment <= now else { return .unknown }
    return entries.last { entry in entry.since.map { $0 <= moment } ?? true }?.issuer ?? .unknown
  }

  /// The clock was set: times of this run move with it.
  mutating func clockStepped(by step: Duration) {
    for index in entries.indices { entries[index].since = entries[index].since.map { $0 + step } }
  }
}

/// The destination of a provider's requests: its settings, with their metadata.
///
/// Read again after each wait. If that is impossible, such as during a conversation, everything is sent to these
/// endpoints and belongs to their issuer.
struct ProviderEndpoints: Sendable {
  let connection: ProviderConnection
  let provider: any Provider
  let settings: UInt64
  let metadata: ServerMetadata

  var issuer: TokenIssuer { TokenIssuer(provider) }
}
