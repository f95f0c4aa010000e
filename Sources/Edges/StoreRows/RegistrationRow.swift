import FoundationEssentials
package import Grants
import OAuth

extension SavedRegistration: StoredRow {
  package static let table = Table(
    "registrations", key: ["provider"], columns: ["provider", "issuer", "client_id", "created_at", "detail"],
    boundTo: ["provider", "issuer", "client_id"],
    integers: ["created_at"], blobs: ["detail"])

  /// With the client: its secret must not be sent to another issuer.
  package var sealedWith: [String] { [provider.rawValue, issuer.rawValue, clientID] }

  /// What is sealed, whole.
  private struct Detail: Codable {
    var discovery: String
    var secret: String?
    var authMethod: String
    var scopes: [String]
    var redirectURI: String?
    var managementToken: String?
    var managementURL: String?
    var secretExpiresAt: Int64?
    /// Absent: none were chosen, or an older version wrote the row.
    var options: SavedRegistration.Options?
    /// Absent: false.
    var isByHand: Bool?
  }

  package func write(to row: inout RowWriter) throws {
    row.text(provider.rawValue)
    row.text(issuer.rawValue)
    row.text(clientID)
    row.time(createdAt)
    // Exposed to be sealed.
    let detail = Detail(
      discovery: discovery.rawValue, secret: clientSecret?.exposed, authMethod: authMethod, scopes: scopes,
      redirectURI: redirectURI, managementToken: managementToken?.exposed,
      managementURL: managementURL?.absoluteString, secretExpiresAt: secretExpiresAt?.milliseconds,
      options: options == Options() ? nil : options, isByHand: isByHand ? true : nil)
    try row.sealedJSON(detail)
  }

  package init(from row: inout RowReader) throws {
    let provider = try row.name(ProviderName.self)
    let issuer = try row.name(Issuer.self)
    let clientID = try row.text()
    row.bind(to: [provider.rawValue, issuer.rawValue, clientID])
    let createdAt = try row.time()
    let detail = try row.required(row.optionalSealedJSON(Detail.self))
    self.init(
      provider: provider, issuer: issuer, discovery: try row.required(DiscoveryStyle(rawValue: detail.discovery)),
      clientID: clientID, clientSecret: detail.secret.map { Secret($0) }, authMethod: detail.authMethod,
      scopes: detail.scopes, redirectURI: detail.redirectURI,
      managementToken: detail.managementToken.map { Secret($0) },
      managementURL: detail.managementURL.flatMap { URL(string: $0) },
      secretExpiresAt: detail.secretExpiresAt.map { Timestamp(milliseconds: $0) }, createdAt: createdAt,
      options: detail.options ?? Options())
    isByHand = detail.isByHand ?? false
  }
}
