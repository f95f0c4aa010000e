import Broker
import BrokerAPI
import CredentialHelpers
import FoundationEssentials
import Grants
import HTTPServer
import NIOHTTP1
import OAuth
import Synchronization

/// AWS container credentials (`AWS_CONTAINER_CREDENTIALS_FULL_URI`): those of a role, which STS gives for the account's
/// token.
struct AWSCredentials {
  private let requests: CloudRequests
  private let exchange: HTTPExchange

  init(_ requests: CloudRequests, _ exchange: HTTPExchange) {
    self.requests = requests
    self.exchange = exchange
  }

  func answer(_ name: String) {
    guard let cloud = requests.cloud(name, { if case .aws = $0 { true } else { false } }),
      case .aws(let role) = cloud.kind
    else {
      return exchange.reply(Self.refusal(.notFound, "NotFound", "there is no [[cloud]] of kind aws with this name"))
    }
    let roles = requests.application.roles
    requests.token(.init(account: cloud.account.rawValue, kind: role.token), exchange) { outcome in
      switch outcome {
      case .failure(let error):
        return Self.refusal(ErrorStatus(error).cloud, error.reason?.rawValue ?? "InvalidRequest", error.sentence)
      case .success(let token):
        switch await roles.credentials(cloud.name, role, token) {
        case .success(let credentials): return credentials.reply
        case .failure(let problem): return Self.refusal(.badGateway, "AssumeRoleWithWebIdentity", problem.message)
        }
      }
    }
  }

  private static func refusal(_ status: HTTPResponseStatus, _ code: String, _ message: String) -> HTTPReply {
    .json(status, [("code", .string(code)), ("message", .string(message))])
  }
}

/// The credentials of roles, each asked for once by all that want it at the same time.
actor AWSRoles {
  struct Credentials: Sendable {
    var key: String
    var secret: String
    var session: String
    /// As STS wrote it, and as a time.
    var end: String
    /// Unix seconds.
    var until: Int64

    var reply: HTTPReply {
      .json(
        .ok,
        [
          ("AccessKeyId", .string(key)), ("SecretAccessKey", .string(secret)), ("Token", .string(session)),
          ("Expiration", .string(end)),
        ])
    }
  }

  struct Problem: Error, Sendable {
    var message: String
  }

  private struct Key: Hashable {
    var cloud: String
    var role: LoopbackSettings.Cloud.Role
    /// The token's user: another user's credentials differ.
    var identity: JWTClaims.Identity
    /// Another token of the same user may have fewer rights at STS.
    var scopes: [String]
  }

  /// The SDKs ask again a quarter of an hour before the end.
  private static let margin: Int64 = 16 * 60

  /// Seconds before the end from which they are not returned: fewer for a short lifetime.
  private static func margin(of role: LoopbackSettings.Cloud.Role) -> Int64 { min(margin, Int64(role.duration) / 2) }
  /// Kept at most.
  private static let most = 256

  private let transport: any Transport
  private let now: @Sendable () -> Timestamp
  private var known: [Key: Credentials] = [:]
  private var running: [Key: Task<Result<Credentials, Problem>, Never>] = [:]

  init(_ transport: any Transport, now: @escaping @Sendable () -> Timestamp) {
    self.transport = transport
    self.now = now
  }

  func credentials(
    _ cloud: String, _ role: LoopbackSettings.Cloud.Role, _ token: TokenGet.Result
  ) async -> Result<Credentials, Problem> {
    let text = token.id_token ?? token.access_token ?? ""
    let identity = JWTClaims.identity(of: text) ?? .init(issuer: token.issuer ?? token.provider, subject: text)
    let key = Key(cloud: cloud, role: role, identity: identity, scopes: token.scope)
    if let credentials = known[key], now().seconds + Self.margin(of: role) < credentials.until {
      return .success(credentials)
    }
    if let task = running[key] { return await task.value }
    let task = Task { await assume(role, text, token.provider) }
    running[key] = task
    let result = await task.value
    running[key] = nil
    if case .success(let credentials) = result {
      if known.count >= Self.most { known = [:] }
      known[key] = credentials
    }
    return result
  }

  private func assume(
    _ role: LoopbackSettings.Cloud.Role, _ token: String, _ provider: String
  ) async -> Result<Credentials, Problem> {
    let helper: AWS
    let request: WebRequest
    do throws(Malformed) {
      helper = try AWS(
        Invocation(
          arguments: [
            "--role", role.arn, "--endpoint", role.endpoint, "--session", role.sessionName, "--duration",
            "\(role.duration)",
          ]), input: [])
      request = try helper.exchange(IssuedToken(text: token))
    } catch {
      return .failure(Problem(message: error.description))
    }
    guard let pool = ProviderName(rawValue: provider).map({ ConnectionPool($0, .callers, size: 8) }) else {
      return .failure(Problem(message: "the account has no provider"))
    }
    guard let url = Endpoint.url(request.url, allowInsecureHTTP: true) else {
      return .failure(Problem(message: "sts_endpoint is not a URL"))
    }
    let message = HTTPRequest(
      purpose: .resource, method: "POST", url: url,
      headers: [.init("Content-Type", "application/x-www-form-urlencoded"), .init("Accept", "application/xml")],
      body: Data(request.body.utf8))
    let response: HTTPResponse
    do throws(TransportError) {
      response = try await transport.send(message, over: pool, late: nil)
    } catch {
      return .failure(Problem(message: "STS: \(error.message)"))
    }
    do throws(CredentialHelpers.Problem) {
      switch try helper.outcome(status: response.status, body: Array(response.body)) {
      case .rejected(let problem): return .failure(Problem(message: problem.line))
      case .answer(let reply): return credentials(reply)
      }
    } catch {
      return .failure(Problem(message: error.line))
    }
  }

  /// From the answer that the helper of `credential_process` gives.
  private func credentials(_ reply: Reply) -> Result<Credentials, Problem> {
    guard let value = try? JSON.parse(reply.out.filter { $0 != 0x0A }), let key = value["AccessKeyId"]?.string,
      let secret = value["SecretAccessKey"]?.string, let session = value["SessionToken"]?.string,
      let end = value["Expiration"]?.string, let until = InternetTime.seconds(end)
    else { return .failure(Problem(message: "STS gave credentials without an end")) }
    return .success(Credentials(key: key, secret: secret, session: session, end: end, until: until))
  }
}

/// The claims of a token that identify its user (RFC 7519 §4.1). Nothing is verified: STS does that.
enum JWTClaims {
  struct Identity: Hashable {
    var issuer: String
    var subject: String
    var audience: [UInt8] = []
  }

  static func identity(of token: String) -> Identity? {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let bytes = decodeBase64URL(parts[1]), let claims = try? JSON.parse(Array(bytes))
    else { return nil }
    return Identity(
      issuer: claims["iss"]?.string ?? "", subject: claims["sub"]?.string ?? "",
      audience: claims["aud"]?.serialized() ?? [])
  }
}
