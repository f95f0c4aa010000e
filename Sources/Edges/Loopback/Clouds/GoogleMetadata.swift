import Broker
import BrokerAPI
import Grants
import HTTPServer
import NIOCore
import NIOHTTP1

/// The metadata server of a virtual machine of Google's (`GCE_METADATA_HOST`), as far as the SDKs use it to find credentials.
struct GoogleMetadata {
  static let prefix = "/computeMetadata/v1/"
  static let flavor = "Metadata-Flavor"
  private static let accounts = "instance/service-accounts/"

  private let requests: CloudRequests
  private let exchange: HTTPExchange

  init(_ requests: CloudRequests, _ exchange: HTTPExchange) {
    self.requests = requests
    self.exchange = exchange
  }

  func answer(_ path: String, _ head: HTTPRequestHead) {
    // As the real one: a page or a proxy sets no such header.
    guard head.headers[Self.flavor] == ["Google"], !head.headers.contains(name: "X-Forwarded-For")
    else { return reply(.forbidden, "Missing Metadata-Flavor:Google header.\n") }
    guard
      let cloud = requests.cloud(
        nil, of: path.hasSuffix("/identity") ? .idToken : .accessToken, { if case .gcp = $0 { true } else { false } }),
      case .gcp(let project, let email) = cloud.kind
    else { return reply(.notFound, "There is no [[cloud]] of kind gcp.\n") }
    guard let query = queryParameters(head), let path = QueryParameters.unescaped(path) else {
      return reply(.badRequest, "The address cannot be read.\n")
    }
    // Only permitted callers learn the project and the account.
    let isToken = path.hasSuffix("/token") || path.hasSuffix("/identity")
    guard
      isToken || path.isEmpty || requests.broker.mayUse(cloud.account.rawValue, requests.principal, kind: .accessToken)
    else {
      return reply(.forbidden, "Not permitted: ask the administrator of this machine for a rule.\n")
    }
    switch path {
    case "": reply(.ok, "computeMetadata/\n")
    case "project/project-id":
      if let project { reply(.ok, project) } else { reply(.notFound, "[[cloud]] has no project.\n") }
    case Self.accounts, String(Self.accounts.dropLast()): reply(.ok, "default/\n\(email)/\n")
    default:
      guard path.hasPrefix(Self.accounts) else { return reply(.notFound, "Not found.\n") }
      let parts = path.dropFirst(Self.accounts.utf8.count).split(separator: "/", omittingEmptySubsequences: false)
      guard let name = parts.first, name == "default" || name == email, parts.count <= 2 else {
        return reply(.notFound, "Not found.\n")
      }
      account(parts.count == 2 ? String(parts[1]) : "", cloud, email, query)
    }
  }

  private func account(_ item: String, _ cloud: LoopbackSettings.Cloud, _ email: String, _ query: [String: String]) {
    let account = cloud.account.rawValue
    switch item {
    case "":
      guard query["recursive"]?.lowercased() == "true" else {
        return reply(.ok, "aliases\nemail\nidentity\nscopes\ntoken\n")
      }
      json(.ok, [("aliases", ["default"]), ("email", .string(email)), ("scopes", [])])
    case "email": reply(.ok, email)
    case "aliases": reply(.ok, "default\n")
    case "scopes": reply(.ok, "")
    case "identity":
      guard let audience = query["audience"], !audience.isEmpty else {
        return reply(.badRequest, "non-empty audience parameter required\n")
      }
      identity(audience, account)
    case "token":
      let scopes = query["scopes"].map { $0.split(whereSeparator: { $0 == "," || $0 == " " }).map(String.init) }
      requests.token(.init(account: account, scopes: scopes?.isEmpty == false ? scopes : nil), exchange) { outcome in
        switch outcome {
        case .success(let token):
          Self.flavored(
            .json(
              .ok,
              [
                ("access_token", .string(token.access_token ?? "")),
                ("expires_in", .integer(token.expires_in ?? TokenEndpoint.longestLife)), ("token_type", "Bearer"),
              ]))
        case .failure(let error):
          Self.flavored(
            .json(
              ErrorStatus(error).cloud,
              [
                ("error", .string(error.reason?.rawValue ?? "invalid_request")),
                ("error_description", .string(error.sentence)),
              ]))
        }
      }
    default: reply(.notFound, "Not found.\n")
    }
  }

  /// The ID token for this audience, as text.
  private func identity(_ audience: String, _ account: String) {
    requests.token(.init(account: account, kind: .idToken, audience: audience), exchange) { outcome in
      let reply =
        switch outcome {
        case .success(let token): HTTPReply(.ok, type: "text/html", token.id_token ?? "")
        case .failure(let error): HTTPReply(ErrorStatus(error).cloud, type: "application/text", error.sentence + "\n")
        }
      return Self.flavored(reply)
    }
  }

  private func reply(_ status: HTTPResponseStatus, _ text: String) {
    exchange.reply(Self.flavored(HTTPReply(status, type: "application/text", text)))
  }

  private func json(_ status: HTTPResponseStatus, _ members: [(String, JSON)]) {
    exchange.reply(Self.flavored(.json(status, members)))
  }

  /// The SDKs take no answer for one of the metadata server's without it.
  private static func flavored(_ reply: HTTPReply) -> HTTPReply {
    var reply = reply
    reply.headers.add(name: flavor, value: "Google")
    return reply
  }
}
