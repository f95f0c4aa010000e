import Broker
import BrokerAPI
import Grants
import HTTPServer
import NIOHTTP1
import OAuth

/// A managed identity of Azure: of App Service (`IDENTITY_ENDPOINT`), and of virtual machines (IMDS).
struct AzureIdentity {
  private let requests: CloudRequests
  private let exchange: HTTPExchange

  init(_ requests: CloudRequests, _ exchange: HTTPExchange) {
    self.requests = requests
    self.exchange = exchange
  }

  /// - Parameter name: nil: the form of virtual machines, which has none.
  func answer(_ name: String?, _ head: HTTPRequestHead) {
    let isMachine = name == nil
    // Both are set by the SDKs alone, and by no page or proxy.
    let isSDK =
      isMachine
      ? head.headers["Metadata"].map { $0.lowercased() } == ["true"] : head.headers.contains(name: "X-IDENTITY-HEADER")
    guard isSDK else {
      return exchange.reply(
        Self.refusal(.badRequest, isMachine, "\(isMachine ? "Metadata: true" : "X-IDENTITY-HEADER") is missing"))
    }
    guard let cloud = requests.cloud(name, { if case .azure = $0 { true } else { false } }),
      case .azure(let own) = cloud.kind
    else {
      return exchange.reply(Self.refusal(.notFound, isMachine, "there is no [[cloud]] of kind azure with this name"))
    }
    guard let resource = queryParameters(head)?["resource"], !resource.isEmpty else {
      return exchange.reply(Self.refusal(.badRequest, isMachine, "the parameter resource is missing, or there twice"))
    }
    let isOwn = own.map { Self.isSame($0, resource) } ?? false
    let scope = (resource.hasSuffix("/") ? String(resource.dropLast()) : resource) + "/.default"
    let now = requests.application.now
    requests.token(.init(account: cloud.account.rawValue, scopes: isOwn ? nil : [scope]), exchange) { outcome in
      switch outcome {
      case .failure(let error):
        return Self.refusal(ErrorStatus(error).cloud, isMachine, error.sentence, error.reason?.rawValue)
      case .success(let token):
        var members: [(String, JSON)] = [
          ("access_token", .string(token.access_token ?? "")),
          ("expires_on", .string(String(token.expires_at ?? now().seconds + TokenEndpoint.longestLife))),
          ("resource", .string(resource)),
          ("token_type", "Bearer"),
        ]
        if isMachine {
          let life = token.expires_in ?? TokenEndpoint.longestLife
          members += [("expires_in", .string(String(life))), ("ext_expires_in", .string(String(life)))]
        }
        return .json(.ok, members)
      }
    }
  }

  private static func isSame(_ one: String, _ other: String) -> Bool {
    func plain(_ text: String) -> Substring { text.hasSuffix("/") ? text.dropLast() : text[...] }
    return plain(one.lowercased()) == plain(other.lowercased())
  }

  private static func refusal(
    _ status: HTTPResponseStatus, _ isMachine: Bool, _ message: String, _ code: String? = nil
  ) -> HTTPReply {
    isMachine
      ? .json(
        status, [("error", .string(code ?? "invalid_request")), ("error_description", .string(message))])
      : .json(status, [("statusCode", .integer(Int64(status.code))), ("message", .string(message))])
  }
}
