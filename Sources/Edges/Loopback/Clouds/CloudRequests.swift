import Broker
import BrokerAPI
import Grants
import HTTPServer
import NIOCore
import NIOHTTP1
import Principals

/// An account as a cloud's SDKs find it: container credentials of AWS, the metadata server of Google's virtual machines,
/// managed identities of Azure. Of one connection, on its event loop.
final class CloudRequests {
  /// A cloud's request, as far as its path tells.
  private enum Kind {
    case aws(String)
    case google(String)
    case azure(String?)
  }

  let application: LoopbackApplication
  let broker: any LoopbackBroker
  let principal: Principal

  init(_ application: LoopbackApplication, _ broker: any LoopbackBroker, _ principal: Principal) {
    self.application = application
    self.broker = broker
    self.principal = principal
  }

  /// The path of the container credentials of AWS, before the name of a cloud.
  static let awsPrefix = "/aws/"

  static func isOne(_ head: HTTPRequestHead) -> Bool { kind(of: head) != nil }

  private static func kind(of head: HTTPRequestHead) -> Kind? {
    let path = head.path
    func name(_ prefix: String) -> String? {
      guard path.hasPrefix(prefix) else { return nil }
      let name = path.dropFirst(prefix.utf8.count)
      return name.isEmpty || name.contains("/") ? nil : String(name)
    }
    if let name = name(awsPrefix) { return .aws(name) }
    if let name = name("/azure/") { return .azure(name) }
    if path == "/metadata/identity/oauth2/token" { return .azure(nil) }
    if path.hasPrefix(GoogleMetadata.prefix) {
      return .google(String(path.dropFirst(GoogleMetadata.prefix.utf8.count)))
    }
    // google-auth detects the server only by this.
    return path == "/" && head.headers.contains(name: GoogleMetadata.flavor) ? .google("") : nil
  }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    guard head.method == .GET || head.method == .HEAD else {
      var reply = HTTPReply(.methodNotAllowed, error: "method_not_allowed", "this is asked for with GET")
      reply.headers.add(name: "Allow", value: "GET")
      return .refuse(reply)
    }
    return .whole(atMost: 0)
  }

  func answer(_ head: HTTPRequestHead, _ exchange: HTTPExchange) {
    switch Self.kind(of: head) {
    case .aws(let name): AWSCredentials(self, exchange).answer(name)
    case .google(let path): GoogleMetadata(self, exchange).answer(path, head)
    case .azure(let name): AzureIdentity(self, exchange).answer(name, head)
    case nil: exchange.reply(HTTPReply(.notFound, error: "not_found", "there is nothing at this path"))
    }
  }

  // MARK: What all have

  /// The cloud of a name; without one the first of which the caller may have such tokens.
  func cloud(
    _ name: String?, of token: TokenKind = .accessToken, _ isOfKind: (LoopbackSettings.Cloud.Kind) -> Bool
  ) -> LoopbackSettings.Cloud? {
    let clouds = application.settings.clouds.filter { isOfKind($0.kind) }
    if let name { return clouds.first { $0.name == name } }
    return clouds.first { broker.mayUse($0.account.rawValue, principal, kind: token) } ?? clouds.first
  }

  /// Asks for the account's token, and calls back.
  func token(
    _ params: TokenGet.Params, _ exchange: HTTPExchange,
    then: @escaping @Sendable (Result<TokenGet.Result, RPCError>) async -> HTTPReply
  ) {
    let session = HTTPSession(principal, exchange)
    Task { [broker] in
      let outcome = await session.perform(TokenGet.self, params, by: broker).mapError { error in
        // A caller without the right does not learn the account behind a cloud.
        error.reason != .notPermitted
          ? error
          : RPCError(
            .notPermitted, "no rule lets you use this [[cloud]]",
            hint: "Ask the administrator of this machine for a rule.")
      }.flatMap { token in
        guard token.id_token != nil || token.access_token != nil && token.token_type?.lowercased() == "bearer" else {
          return Result<TokenGet.Result, RPCError>.failure(
            RPCError(
              .unsupportedByProvider, "the tokens of this account are not Bearer tokens",
              hint: "Use an account whose tokens are not bound to a key."))
        }
        return .success(token)
      }
      exchange.reply(await then(outcome))
    }
  }
}

extension RPCError {
  /// With the next step, in one line.
  var sentence: String {
    [message, hint ?? reason?.defaultHint].compactMap(\.self).joined(separator: ". ")
      .split { $0.isNewline }.joined(separator: " ")
  }
}

extension HTTPReply {
  static func json(_ status: HTTPResponseStatus, _ members: [(String, JSON)]) -> HTTPReply {
    let object = JSON.object(members.map { JSON.Member(name: $0.0, value: $0.1) })
    return HTTPReply(
      status, ["Content-Type": "application/json", "Cache-Control": "no-store"],
      body: ByteBuffer(bytes: object.serialized()))
  }
}

/// The parameters of a query, each once.
func queryParameters(_ head: HTTPRequestHead) -> [String: String]? {
  guard let mark = head.uri.firstIndex(of: "?") else { return [:] }
  return QueryParameters.decode(head.uri[head.uri.index(after: mark)...])
}
