import Broker
import BrokerAPI
import Grants
import HTTPServer
import NIOCore
import NIOHTTP1
import OAuth
import Principals

/// `POST /token`: an account's access token, as an authorization server answers it (RFC 6749 §4.4, §6). Of one connection,
/// on its event loop.
///
/// Clients ask again when `expires_in` is over, with the same handle: what changes in the rules reaches them by then.
final class TokenEndpoint {
  /// Seconds. More than what google-auth takes for nearly over (225).
  static let longestLife: Int64 = 300

  private let application: LoopbackApplication
  private let broker: any LoopbackBroker
  private let principal: Principal
  private let cache: any CachedTokens
  /// The reply that was rendered last, and of what.
  private var rendered: (of: CachedReply.Body, reply: TokenReply)?

  init(_ application: LoopbackApplication, _ broker: any LoopbackBroker, _ principal: Principal) {
    self.application = application
    self.broker = broker
    self.principal = principal
    cache = broker.cachedTokens(for: principal)
  }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    guard head.method == .POST else {
      var reply = HTTPReply(
        TokenRefusal(.invalidRequest, "a token is asked for with POST, and a form as the body"),
        status: .methodNotAllowed)
      reply.headers.add(name: "Allow", value: "POST")
      return .refuse(reply)
    }
    let type = head.headers.first(name: "Content-Type").map { $0.prefix { $0 != ";" } } ?? ""
    guard type.split(separator: " ").joined().lowercased() == "application/x-www-form-urlencoded" else {
      return .refuse(
        HTTPReply(TokenRefusal(.invalidRequest, "the Content-Type is not application/x-www-form-urlencoded")))
    }
    guard head.headers["Authorization"].count <= 1 else {
      return .refuse(HTTPReply(TokenRefusal(.invalidRequest, "there is more than one Authorization header")))
    }
    return .whole(atMost: TokenForm.longestBody)
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    do throws(TokenRefusal) {
      guard let form = String(validating: body.readableBytesView, as: UTF8.self) else {
        throw TokenRefusal(.invalidRequest, "the body is not application/x-www-form-urlencoded text")
      }
      let request = try TokenForm(form: form, authorization: head.headers.first(name: "Authorization"))
      let wish = try wish(request)
      if request.exchangesFor == nil, var reply = cached(wish) {
        reply.isFromMemory = true
        return exchange.reply(reply)
      }
      ask(wish, request, exchange)
    } catch {
      exchange.reply(HTTPReply(error, isByHeader: head.headers.contains(name: "Authorization")))
    }
  }

  /// The meaning of a handle. An account's own name is a handle too.
  private func wish(_ request: TokenForm) throws(TokenRefusal) -> TokenGet.Params {
    guard let handle = application.settings.handles.first(where: { $0.name == request.handle }) else {
      guard AccountName(rawValue: request.handle) != nil else {
        throw TokenRefusal(.invalidClient, "there is no such account or [[handle]]: see them with grantctl list")
      }
      return .init(
        account: request.handle, kind: request.kind, scopes: request.scopes, resource: request.resource,
        audience: request.audience)
    }
    if let own = handle.scopes, let wanted = request.scopes, let other = wanted.first(where: { !own.contains($0) }) {
      throw TokenRefusal(
        .invalidScope, "[[handle]] \(handle.name) has not the scope \(other): ask for one of its scopes, or for none")
    }
    if let own = handle.resource, let wanted = request.resource, own != wanted {
      throw TokenRefusal(.invalidTarget, "[[handle]] \(handle.name) is for the resource \(own) alone")
    }
    guard request.kind != .idToken else {
      return .init(account: handle.account.rawValue, kind: .idToken, audience: request.audience)
    }
    return .init(
      account: handle.account.rawValue, scopes: request.scopes ?? handle.scopes,
      resource: request.resource ?? handle.resource, audience: request.audience)
  }

  private func cached(_ wish: TokenGet.Params) -> HTTPReply? {
    guard wish.resource == nil, wish.audience == nil, wish.kind == nil else { return nil }
    let scopes = wish.scopes.map { JSON.array($0.map { .string($0) }).text() }
    guard let found = cache.reply(account: wish.account, scopes: scopes) else { return nil }
    if let rendered, rendered.of === found.body { return rendered.reply.http(expiresIn: found.expiresIn) }
    guard let reply = TokenReply(found.body) else { return nil }
    rendered = (found.body, reply)
    return reply.http(expiresIn: found.expiresIn)
  }

  private func ask(_ wish: TokenGet.Params, _ asked: TokenForm, _ exchange: HTTPExchange) {
    let handle = asked.handle
    let session = HTTPSession(principal, exchange)
    Task { [broker] in
      switch await session.perform(TokenGet.self, wish, by: broker) {
      case .success(let token):
        guard let reply = TokenReply(token, isExchange: asked.exchangesFor != nil) else {
          return exchange.reply(
            HTTPReply(
              TokenRefusal(
                .serverError,
                "the tokens of this account are not Bearer tokens: use the forward endpoint, or grantctl request")))
        }
        exchange.reply(reply.http(expiresIn: token.expires_in))
      // A caller without the right does not learn the account behind a handle.
      case .failure(let error) where error.reason == .notPermitted && wish.account != handle:
        exchange.reply(
          HTTPReply(
            TokenRefusal(
              .unauthorizedClient,
              "no rule lets you use [[handle]] \(handle). Ask the administrator of this machine for one"),
            isByHeader: exchange.head.headers.contains(name: "Authorization")))
      case .failure(let error):
        exchange.reply(
          HTTPReply(TokenRefusal(error), isByHeader: exchange.head.headers.contains(name: "Authorization")))
      }
    }
  }
}

/// A token as RFC 6749 §5.1 has it, with a hole where `expires_in` goes. There is no refresh token: the handle stays one.
struct TokenReply {
  private let body: CachedReply.Body

  init?(_ body: CachedReply.Body) {
    let text = body.withBytes { head, tail in Array(head) + (tail.isEmpty ? [] : Array("0".utf8) + Array(tail)) }
    guard let result = try? JSON.parse(text).decode(TokenGet.Result.self) else { return nil }
    self.init(result)
  }

  /// - Parameter isExchange: the answer to a token exchange (RFC 8693 §2.2.1), whose `access_token` is the token of
  ///   whatever type.
  init?(_ token: TokenGet.Result, isExchange: Bool = false) {
    guard let text = token.id_token ?? token.access_token,
      token.id_token != nil || token.token_type?.lowercased() == "bearer"
    else { return nil }
    let isIDToken = token.id_token != nil
    var members: [JSON.Member] = [
      .init(name: "access_token", value: .string(text)),
      // An ID token is not an access token (RFC 8693 §2.2.1).
      .init(name: "token_type", value: isIDToken ? "N_A" : "Bearer"),
    ]
    if isExchange {
      let type: TokenExchangeRequest.TokenType = isIDToken ? .idToken : .accessToken
      members.append(.init(name: "issued_token_type", value: .string(type.rawValue)))
    }
    let head = JSON.object(members)
    let tail = JSON.object([.init(name: "scope", value: .string(token.scope.joined(separator: " ")))])
    body = CachedReply.Body(
      head: head.serialized().dropLast() + Array(",\"expires_in\":".utf8),
      tail: token.scope.isEmpty ? Array("}".utf8) : [UInt8(ascii: ",")] + tail.serialized().dropFirst())
  }

  func http(expiresIn: Int64?) -> HTTPReply {
    let life = max(0, min(expiresIn ?? TokenEndpoint.longestLife, TokenEndpoint.longestLife))
    let bytes = body.withBytes { head, tail in
      var bytes = ByteBuffer()
      bytes.reserveCapacity(head.count + tail.count + 4)
      bytes.writeBytes(head)
      bytes.writeString(String(life))
      bytes.writeBytes(tail)
      return bytes
    }
    return HTTPReply(.ok, TokenRefusal.headers, body: bytes)
  }
}

extension TokenRefusal {
  /// RFC 6749 §5.1.
  static let headers: HTTPHeaders = [
    "Content-Type": "application/json", "Cache-Control": "no-store", "Pragma": "no-cache",
  ]

  /// Only an ended login is `invalid_grant`: clients then ask their user to sign in.
  init(_ error: RPCError) {
    let code = ErrorStatus(error).token
    let hint = error.hint ?? error.reason?.defaultHint
    self.init(code, [error.message, hint].compactMap(\.self).joined(separator: ". "))
    if code == .temporarilyUnavailable { retryAfter = max(1, Int((error.retry_after ?? 5).rounded(.up))) }
  }

  /// RFC 6749 §5.2: printable ASCII without quotation marks and backslashes.
  var safeDescription: String {
    String(
      decoding: description.utf8.map { byte -> UInt8 in
        switch byte {
        case 0x22: 0x27
        case 0x5C: 0x2F
        case 0x20...0x7E: byte
        default: 0x20
        }
      }, as: UTF8.self)
  }
}

extension HTTPReply {
  /// - Parameter isByHeader: the client authenticated by the Authorization header (RFC 6749 §5.2).
  init(_ refusal: TokenRefusal, status: HTTPResponseStatus? = nil, isByHeader: Bool = false) {
    let body = JSON.object([
      .init(name: "error", value: .string(refusal.code.rawValue)),
      .init(name: "error_description", value: .string(refusal.safeDescription)),
    ])
    self.init(status ?? refusal.code.status, TokenRefusal.headers, body: ByteBuffer(bytes: body.serialized()))
    if let wait = refusal.retryAfter { headers.add(name: "Retry-After", value: String(wait)) }
    if refusal.code == .invalidClient, isByHeader {
      headers.add(name: "WWW-Authenticate", value: "Basic realm=\"grantd\"")
    }
  }
}
