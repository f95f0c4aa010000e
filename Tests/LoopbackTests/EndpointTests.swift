import Foundation
import Glibc
import Grants
import HTTPServer
import HTTPTransport
import Logging
import NIOPosix
import OAuth
import Principals
import Synchronization
import Testing

@testable import Broker
@testable import BrokerAPI
@testable import Loopback

/// The token endpoint and the clouds on a real port, with a broker that answers as told.
@Suite(.timeLimit(.minutes(5))) struct EndpointTests {
  /// Status, and parts of the answer.
  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let request: String
    var answer: Result<TokenGet.Result, RPCError> = .success(token())
    let status: Int
    let parts: [String]
    /// The parameters that the broker gets; nil: it is not asked.
    var asked: TokenGet.Params?
  }

  private static func token(
    _ type: String? = "Bearer", text: String = "a-1", id: String? = nil, expiresIn: Int64? = 3600
  ) -> TokenGet.Result {
    .init(
      access_token: id == nil ? text : nil, token_type: id == nil ? type : nil, id_token: id,
      expires_at: expiresIn.map { 1_000_000 + $0 }, expires_in: expiresIn, scope: ["mail"], account: "work",
      provider: "demo", issuer: "https://issuer.example", generation: 1)
  }

  /// A JWT, which STS takes.
  private static func token(ofUser subject: String) -> TokenGet.Result {
    let claims = Data("{\"iss\":\"https://i\",\"sub\":\"\(subject)\"}".utf8).base64EncodedString()
    return token(text: "eyJhbGciOiJub25lIn0.\(claims.replacing("=", with: "")).x")
  }

  private static func form(_ text: String, _ headers: String = "") -> String {
    "POST /token HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\(headers)"
      + "Content-Length: \(text.utf8.count)\r\nHost: h\r\nConnection: close\r\n\r\n\(text)"
  }

  private static func get(_ path: String, _ headers: String = "") -> String {
    "GET \(path) HTTP/1.1\r\n\(headers)Host: h\r\nConnection: close\r\n\r\n"
  }

  private static let notPermitted = RPCError(.notPermitted, "uid 5 may not use account work")
  private static let ended = RPCError(.loginRequired, "account work: sign in again", hint: "grantctl login work")
  private static let google = "Metadata-Flavor: Google\r\n"
  private static let googlePath = "/computeMetadata/v1/instance/service-accounts/default"

  static let tokenRows: [Row] = [
    Row(
      testDescription: "an account by its name", request: form("grant_type=refresh_token&refresh_token=work"),
      status: 200, parts: ["\"access_token\":\"a-1\"", "\"expires_in\":300", "\"scope\":\"mail\"", "no-store"],
      asked: .init(account: "work")),
    Row(
      testDescription: "a handle with its scopes and its resource",
      request: form("grant_type=client_credentials&client_id=reports"), status: 200, parts: ["a-1"],
      asked: .init(account: "work", scopes: ["mail", "files"], resource: "https://api.example")),
    Row(
      testDescription: "one of a handle's scopes",
      request: form("grant_type=client_credentials&client_id=reports&scope=files"), status: 200, parts: ["a-1"],
      asked: .init(account: "work", scopes: ["files"], resource: "https://api.example")),
    Row(
      testDescription: "a scope that a handle has not",
      request: form("grant_type=client_credentials&client_id=reports&scope=admin"), status: 400,
      parts: ["\"error\":\"invalid_scope\""]),
    Row(
      testDescription: "another resource than a handle's",
      request: form("grant_type=client_credentials&client_id=reports&resource=https://evil.example"), status: 400,
      parts: ["\"error\":\"invalid_target\""]),
    Row(
      testDescription: "no name of an account", request: form("grant_type=client_credentials&client_id=no/name"),
      status: 401, parts: ["\"error\":\"invalid_client\""]),
    Row(
      testDescription: "a caller without a rule for an account, by its name",
      request: form("grant_type=refresh_token&refresh_token=work"), answer: .failure(notPermitted), status: 400,
      parts: ["\"error\":\"unauthorized_client\"", "uid 5"], asked: .init(account: "work")),
    Row(
      testDescription: "a caller without a rule does not learn the account of a handle",
      request: form("grant_type=client_credentials&client_id=mine"), answer: .failure(notPermitted), status: 400,
      parts: ["\"error\":\"unauthorized_client\"", "[[handle]] mine", "!uid 5"],
      asked: .init(account: "work")),
    Row(
      testDescription: "an ended login", request: form("grant_type=refresh_token&refresh_token=work"),
      answer: .failure(ended), status: 400, parts: ["\"error\":\"invalid_grant\"", "grantctl login work"],
      asked: .init(account: "work")),
    Row(
      testDescription: "tokens that are bound to a key", request: form("grant_type=refresh_token&refresh_token=work"),
      answer: .success(token("DPoP")), status: 500, parts: ["\"error\":\"server_error\"", "!a-1"],
      asked: .init(account: "work")),
    Row(
      testDescription: "GET", request: get("/token?grant_type=refresh_token&refresh_token=work"), status: 405,
      parts: ["Allow: POST", "!a-1"]),
    Row(
      testDescription: "JSON",
      request: "POST /token HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\nHost: h\r\n"
        + "Connection: close\r\n\r\n{}", status: 400, parts: ["invalid_request"]),
    Row(
      testDescription: "two Authorization headers",
      request: form("grant_type=client_credentials", "Authorization: Basic YTpi\r\nAuthorization: Basic YTpi\r\n"),
      status: 400, parts: ["invalid_request"]),
  ]

  static let cloudRows: [Row] = [
    Row(
      testDescription: "Google: the token", request: get("\(googlePath)/token", google), status: 200,
      parts: ["\"access_token\":\"a-1\"", "\"expires_in\":3600", "Metadata-Flavor: Google"],
      asked: .init(account: "work")),
    Row(
      testDescription: "Google: scopes by comma", request: get("\(googlePath)/token?scopes=a,b", google), status: 200,
      parts: ["a-1"], asked: .init(account: "work", scopes: ["a", "b"])),
    Row(
      testDescription: "Google: an ID token needs an audience", request: get("\(googlePath)/identity", google),
      status: 400, parts: ["audience"]),
    Row(
      testDescription: "Google: an ID token",
      request: get("\(googlePath)/identity?audience=https://me.example", google),
      answer: .success(token(id: "id-1")), status: 200, parts: ["\r\n\r\nid-1"],
      asked: .init(account: "work", kind: .idToken, audience: "https://me.example")),
    Row(
      testDescription: "Google: the email", request: get("\(googlePath)/email", google), status: 200,
      parts: ["\r\n\r\nme@project.example"]),
    Row(
      testDescription: "Google: without the header of its SDKs", request: get("\(googlePath)/token"), status: 403,
      parts: ["!a-1"]),
    Row(
      testDescription: "Google: behind a proxy",
      request: get("\(googlePath)/token", google + "X-Forwarded-For: 10.0.0.1\r\n"), status: 403, parts: ["!a-1"]),
    Row(
      testDescription: "Google: another account",
      request: get("/computeMetadata/v1/instance/service-accounts/other@project.example/token", google), status: 404,
      parts: ["!a-1"]),
    Row(
      testDescription: "Google: no Bearer tokens", request: get("\(googlePath)/token", google),
      answer: .success(token("DPoP")), status: 403, parts: ["not Bearer tokens", "!a-1"], asked: .init(account: "work")),
    Row(
      testDescription: "Google: a caller without a rule does not learn the account",
      request: get("\(googlePath)/token", google), answer: .failure(notPermitted), status: 403,
      parts: ["[[cloud]]", "!uid 5"], asked: .init(account: "work")),
    Row(
      testDescription: "Azure: the account's own resource",
      request: get("/azure/office?resource=https://graph.example/", "X-IDENTITY-HEADER: x\r\n"), status: 200,
      parts: ["\"access_token\":\"a-1\"", "\"expires_on\":\"1003600\""], asked: .init(account: "work")),
    Row(
      testDescription: "Azure: another resource, as a scope",
      request: get("/azure/office?resource=https://vault.example", "X-IDENTITY-HEADER: x\r\n"), status: 200,
      parts: ["a-1"], asked: .init(account: "work", scopes: ["https://vault.example/.default"])),
    Row(
      testDescription: "Azure: a virtual machine",
      request: get("/metadata/identity/oauth2/token?resource=https://graph.example", "Metadata: true\r\n"), status: 200,
      parts: ["\"expires_in\":\"3600\""], asked: .init(account: "work")),
    Row(
      testDescription: "Azure: without the header of its SDKs",
      request: get("/azure/office?resource=https://graph.example"), status: 400, parts: ["X-IDENTITY-HEADER", "!a-1"]),
    Row(
      testDescription: "Azure: a resource twice",
      request: get("/azure/office?resource=a&resource=b", "X-IDENTITY-HEADER: x\r\n"), status: 400, parts: ["resource"]),
    Row(
      testDescription: "Azure: no such name", request: get("/azure/lost?resource=a", "X-IDENTITY-HEADER: x\r\n"),
      status: 404, parts: ["[[cloud]]"]),
    Row(
      testDescription: "AWS: the credentials of the role", request: get("/aws/backup"),
      answer: .success(token(ofUser: "ada")), status: 200,
      parts: ["\"AccessKeyId\":\"AKIA\"", "\"Token\":\"session\"", "\"Expiration\":\"2030-01-01T00:00:00Z\""],
      asked: .init(account: "work", kind: .accessToken)),
    Row(
      testDescription: "AWS: an ended login", request: get("/aws/backup"), answer: .failure(ended), status: 403,
      parts: ["\"code\":\"login_required\"", "grantctl login work"],
      asked: .init(account: "work", kind: .accessToken)),
    Row(
      testDescription: "AWS: a token that STS does not take", request: get("/aws/backup"), status: 502,
      parts: ["AWS takes a JWT", "!a-1"], asked: .init(account: "work", kind: .accessToken)),
    Row(testDescription: "AWS: no such name", request: get("/aws/office"), status: 404, parts: ["[[cloud]]"]),
    Row(
      testDescription: "a cloud by POST", request: "POST /aws/backup HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
      status: 405, parts: ["Allow: GET"]),
    Row(testDescription: "another path", request: get("/elsewhere"), status: 404, parts: ["docs/http.md"]),
  ]

  static let forwardRows: [Row] = [
    Row(
      testDescription: "a forward with steps upwards", request: get("/forward/work/a/%2e%2e/b"), status: 400,
      parts: ["\"error\":\"bad_request\"", PlainPath.refusal]),
    Row(
      testDescription: "a forward with steps upwards at another host", request: get("/forward/work/@a.example/../b?x"),
      status: 400, parts: ["\"error\":\"bad_request\"", PlainPath.refusal]),
  ]

  @Test("A request gets its answer, and the broker its parameters", arguments: tokenRows + cloudRows + forwardRows)
  func answers(_ row: Row) async throws {
    let broker = ScriptedBroker(row.answer)
    try await Self.serving(broker) { port, _ in
      let text = try await Self.exchange(row.request, port)
      #expect(text.hasPrefix("HTTP/1.1 \(row.status) "), "\(text)")
      for part in row.parts {
        if part.hasPrefix("!") {
          #expect(!text.contains(part.dropFirst()), "\(text)")
        } else {
          #expect(text.contains(part), "\(part) in \(text)")
        }
      }
      #expect(broker.asked == row.asked)
    }
  }

  @Test("STS is asked once for the credentials of one user, and again for those of another")
  func role() async throws {
    let broker = ScriptedBroker(.success(Self.token(ofUser: "ada")))
    try await Self.serving(broker) { port, sts in
      async let first = Self.exchange(Self.get("/aws/backup"), port)
      async let second = Self.exchange(Self.get("/aws/backup"), port)
      for answer in try await [first, second] { #expect(answer.contains("AKIA")) }
      #expect(sts.requests == 1)
      broker.answers(.success(Self.token(ofUser: "bob")))
      #expect(try await Self.exchange(Self.get("/aws/backup"), port).contains("AKIA"))
      #expect(sts.requests == 2)
      sts.fails()
      broker.answers(.success(Self.token(ofUser: "eve")))
      #expect(try await Self.exchange(Self.get("/aws/backup"), port).hasPrefix("HTTP/1.1 502 "))
    }
  }

  // MARK: the server

  private static let settings: LoopbackSettings = {
    var settings = LoopbackSettings()
    guard let work = AccountName(rawValue: "work") else { return settings }
    settings.handles = [
      .init(name: "reports", account: work, scopes: ["mail", "files"], resource: "https://api.example"),
      .init(name: "mine", account: work),
    ]
    settings.clouds = [
      .init(name: "vm", account: work, kind: .gcp(project: "project", email: "me@project.example")),
      .init(name: "office", account: work, kind: .azure(resource: "https://graph.example")),
      .init(
        name: "backup", account: work,
        kind: .aws(
          .init(
            arn: "arn:aws:iam::123456789012:role/backup", endpoint: "https://sts.example", sessionName: "grantd",
            duration: 3600))),
    ]
    return settings
  }()

  private static func serving(
    _ broker: ScriptedBroker, _ body: (Int, SecurityTokenService) async throws -> Void
  ) async throws {
    let sts = SecurityTokenService()
    let application = LoopbackApplication(
      sts, upstreams: { _ in fatalError("no request is forwarded") }, now: { Timestamp(seconds: 1_000_000) })
    application.configure(settings)
    application.serve(broker)
    let server = HTTPServer(
      address: .loopback(host: "127.0.0.1", port: 0), limits: HTTPServer.Limits(),
      group: MultiThreadedEventLoopGroup.singleton, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
      application: LoopbackListener(application, .peer))
    let place = try await server.start()
    let port = try #require(place.split(separator: ":").last.flatMap { Int($0) })
    do {
      try await body(port, sts)
    } catch {
      await server.stop()
      throw error
    }
    await server.stop()
  }

  /// The whole answer, on a thread that may block.
  private static func exchange(_ request: String, _ port: Int) async throws -> String {
    try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global().async { continuation.resume(with: Result { try answer(to: request, port) }) }
    }
  }

  /// The host is that of the port, which the server compares.
  private static func answer(to request: String, _ port: Int) throws -> String {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let code = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    try #require(code == 0)
    let text = request.replacing("Host: h\r\n", with: "Host: 127.0.0.1:\(port)\r\n")
    try #require(send(descriptor, text, text.utf8.count, Int32(MSG_NOSIGNAL)) == text.utf8.count)
    var (answer, part) = ([UInt8](), [UInt8](repeating: 0, count: 16 * 1024))
    while case let count = recv(descriptor, &part, part.count, 0), count > 0 { answer += part[..<count] }
    return String(decoding: answer, as: UTF8.self)
  }
}

/// A broker with one answer, which notes its last question.
private final class ScriptedBroker: LoopbackBroker {
  private let state: Mutex<(answer: Result<TokenGet.Result, RPCError>, asked: TokenGet.Params?)>
  let entrance = Entrance()

  init(_ answer: Result<TokenGet.Result, RPCError>) { state = Mutex((answer, nil)) }

  var asked: TokenGet.Params? { state.withLock { $0.asked } }
  func answers(_ answer: Result<TokenGet.Result, RPCError>) { state.withLock { $0.answer = answer } }

  func perform<M: RPCMethod>(
    _ method: M.Type, _ params: M.Params, by session: any Session
  ) async -> Result<M.Result, RPCError> {
    session.decided()
    guard let params = params as? TokenGet.Params else { return .failure(RPCError(.notPermitted, "\(M.name)")) }
    let answer = state.withLock { state in
      state.asked = params
      return state.answer
    }
    return answer.flatMap { result in
      (result as? M.Result).map { .success($0) } ?? .failure(RPCError(.notPermitted, "\(M.name)"))
    }
  }

  func mayUse(_ account: String, _ principal: Principal, kind: TokenKind) -> Bool { true }
  func callerClass(of principal: Principal) -> CallerClass { .named }
  func cachedTokens(for principal: Principal) -> any CachedTokens { NoTokens() }
  func respond(to request: RPCRequest, session: any Session) async -> Result<JSON, RPCError> {
    .failure(RPCError(.notPermitted, "an adapter calls with types"))
  }
  func authorize(_ forward: ForwardRequest, session: any Session) async -> Result<AuthorizedRequest, RPCError> {
    .failure(RPCError(.notPermitted, "not here"))
  }
  func forwardCache(for principal: Principal) -> ConnectionForwardCache { fatalError("no request is forwarded") }
  func readsBody(_ forward: ForwardRequest, _ principal: Principal) async -> Bool { false }
  func judge(_ response: HTTPResponse, to sent: AuthorizedRequest) async -> ForwardVerdict {
    .refused(RPCError(.notPermitted, "not here"))
  }

  private final class NoTokens: CachedTokens {
    func reply(
      account: UnsafeRawBufferPointer, minTTL: Int64?, scopes: UnsafeRawBufferPointer?
    ) -> CachedReply? { nil }
  }
}

/// AssumeRoleWithWebIdentity of AWS.
private final class SecurityTokenService: Transport {
  private let state = Mutex((requests: 0, fails: false))

  var requests: Int { state.withLock { $0.requests } }
  func fails() { state.withLock { $0.fails = true } }

  func send(
    _ request: HTTPRequest, over pool: ConnectionPool, late: LateAnswer?
  ) async throws(TransportError) -> HTTPResponse {
    let fails = state.withLock { state in
      state.requests += 1
      return state.fails
    }
    let text =
      fails
      ? "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"
      : """
      <AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\
      <AccessKeyId>AKIA</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
      <SessionToken>session</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration>\
      </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>
      """
    return HTTPResponse(status: fails ? 403 : 200, headers: [], body: Data(text.utf8))
  }

  func scope(of url: URL) async throws(TransportError) -> AddressScope { .global }
  func proxy(for url: URL) -> HTTPProxy? { nil }
}
