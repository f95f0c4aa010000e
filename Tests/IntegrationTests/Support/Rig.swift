import AsyncClient
import BlockingClient
import BrokerAPI
import DemoProvider
import Foundation
import Synchronization
import TestSupport

/// The options of a rig.
struct Wish: Sendable {
  var rotation = DemoServer.Rotation.strict
  /// Seconds.
  var accessTTL = 300
  var client = DemoServer.Client(id: "demo")
  /// More lines of `[provider.demo]`.
  var provider = ""
  /// Callers refresh below half of a token's life, and the clockwork at its end only.
  var refresh = "share = 1\nmargin = \"0s\"\njitter = 0\nretry_delays = [\"1s\"]"
  /// More sections.
  var configuration = ""
  var environment: [String: String] = [:]
  var hasSecondProvider = false
  /// The token endpoint is behind a relay.
  var isRelayed = false

  init(_ change: (inout Wish) -> Void = { _ in }) { change(&self) }

  /// Tokens of two seconds, refreshed after one.
  static func shortLived(_ change: (inout Wish) -> Void = { _ in }) -> Wish {
    Wish {
      $0.accessTTL = 2
      $0.refresh = "share = 0.5\njitter = 0\nretry_delays = [\"1s\"]"
      change(&$0)
    }
  }
}

/// A provider, a separate daemon with a separate folder, and the actions of programs and users.
final class Rig: Sendable {
  let demo: DemoServer
  /// A second provider, `other`.
  let other: DemoServer?
  let relay: Relay?
  let folder: Folder
  let wish: Wish
  private let running = Mutex<(child: Child?, client: SocketClient?)>((nil, nil))

  var socket: String { folder.path("s") }
  var state: String { folder.path("state") }
  var configurationFile: String { folder.path("grantd.toml") }
  var log: String { (try? String(contentsOfFile: folder.path("log"), encoding: .utf8)) ?? "" }

  private init(_ wish: Wish) async throws {
    self.wish = wish
    folder = try Folder()
    var options = DemoServer.Options()
    options.clients = [wish.client]
    options.settings.accessTTL = .seconds(wish.accessTTL)
    options.settings.rotation = wish.rotation
    // Longer than a kill, a start and a pause of this machine.
    options.settings.grace = .seconds(60)
    demo = try await DemoServer.start(options)
    other = wish.hasSecondProvider ? try await DemoServer.start(options) : nil
    relay = wish.isRelayed ? Relay(to: demo.port) : nil
    try await relay?.start()
    try configure()
  }

  /// A rig with its daemon for the time of `body`.
  static func with(_ wish: Wish = Wish(), starting: Bool = true, _ body: (Rig) async throws -> Void) async throws {
    await Slots.shared.take()
    do {
      let rig = try await Rig(wish)
      do {
        if starting { try await rig.start() }
        try await body(rig)
      } catch {
        FileHandle.standardError.write(Data("the daemon's log:\n\(rig.log.suffix(4000))\n".utf8))
        await rig.clean()
        throw error
      }
      await rig.clean()
    } catch {
      await Slots.shared.give()
      throw error
    }
    await Slots.shared.give()
  }

  private func clean() async {
    await running.withLock { $0.client }?.close()
    running.withLock { $0.child }?.kill9()
    await relay?.close()
    await demo.stop()
    await other?.stop()
  }

  // MARK: The daemon

  /// Writes the configuration; `more` are further sections.
  func configure(_ more: String = "") throws {
    var text = "[refresh]\n\(wish.refresh)\n[provider.demo]\n" + provider(demo) + "\n\(wish.provider)\n"
    if let relay {
      // Only 127.0.0.1 goes without the switch.
      text += "token_endpoint = \"http://\(relay.host):\(relay.port)/token\"\nallow_insecure_http = true\n"
    }
    if let secret = wish.client.secret {
      text += "client_secret_file = \"\(try folder.write(secret + "\n", to: "secret"))\"\n"
    }
    if let other { text += "[provider.other]\n" + provider(other) }
    try folder.write(text + "\n\(wish.configuration)\n\(more)\n", to: "grantd.toml")
  }

  private func provider(_ server: DemoServer) -> String {
    """
    kind = "oidc"
    issuer = "\(server.issuer)"
    client_id = "\(wish.client.id)"
    scopes = ["openid", "email", "profile", "offline_access"]
    \(wish.provider.contains("narrow_tokens") ? "" : "narrow_tokens = \"verified\"")
    """
  }

  var arguments: [String] {
    ["--user", "--config", configurationFile, "--state", state, "--socket", socket, "--log-level", "debug"]
  }

  /// Starts the daemon and does not wait for it.
  @discardableResult
  func launch() throws -> Child {
    let environment = Programs.environment(folder).merging(wish.environment) { $1 }
    let child = try Child(Programs.grantd, arguments, environment: environment, output: folder.path("log"))
    running.withLock { $0 = (child, nil) }
    return child
  }

  func start() async throws {
    let child = try launch()
    try await eventually("the socket answers") {
      if let status = child.status { throw Failed("grantd ended with status \(status):\n\(self.log.suffix(2000))") }
      guard let client = try? await SocketClient.connect(path: self.socket) else { return false }
      self.running.withLock { $0.client = client }
      return true
    }
  }

  var daemon: Child {
    get throws {
      guard let child = running.withLock({ $0.child }) else { throw Failed("no daemon runs") }
      return child
    }
  }

  /// As a crash or the kernel's out-of-memory killer ends it.
  func kill9() throws { try daemon.kill9() }

  func restart() async throws {
    try kill9()
    try await start()
  }

  /// An orderly end; its exit status.
  @discardableResult
  func terminate(within limit: Duration = .seconds(60)) async throws -> Int32 {
    try daemon.signal(SIGTERM)
    return try await daemon.end(within: limit)
  }

  // MARK: A program's requests

  var client: SocketClient {
    get throws {
      guard let client = running.withLock({ $0.client }) else { throw Failed("not connected") }
      return client
    }
  }

  @discardableResult
  func call(_ method: String, _ params: JSON = [:]) async throws -> JSON {
    try await client.call(method: method, params: params, timeout: .seconds(60))
  }

  /// The error that the daemon answers with.
  func failure(_ method: String, _ params: JSON = [:]) async throws -> RPCError {
    do {
      let result = try await call(method, params)
      throw Failed("\(method) should fail, and answers \(String(decoding: result.serialized(), as: UTF8.self))")
    } catch SocketClientError.rpc(let error) {
      return error
    }
  }

  func token(_ account: String = "alice", minTTL: Double? = nil) async throws -> Token {
    try Token(
      try await client.call(TokenGet.self, .init(account: account, min_ttl: minTTL), timeout: .seconds(60)))
  }

  func account(_ name: String = "alice") async throws -> AccountView {
    try await client.call(AccountGet.self, .init(account: name), timeout: .seconds(30))
  }

  func wait(for account: String = "alice", toBe state: AccountState, within limit: Duration = .seconds(60)) async throws
  {
    try await eventually("\(account) is \(state)", within: limit) { try await self.account(account).state == state }
  }

  // MARK: A person's login

  struct Pending: Sendable {
    var id: String
    /// The authorization request.
    var url: String
    var redirectURI: String
    /// The address for a browser of this machine.
    var link: String?
  }

  /// - Parameter user: whom the provider signs in; the account's name without one.
  func startLogin(_ account: String = "alice", at provider: String = "demo", as user: String? = nil) async throws
    -> Pending
  {
    let result = try await client.call(
      LoginStart.self, .init(provider: provider, account: account, login_hint: user ?? account), timeout: .seconds(30))
    let link = result.destinations.first { $0.kind == "browser" }?.url
    guard let place = result.destinations.first(where: { $0.kind == "manual" }), let url = place.url,
      let redirect = place.redirect_uri
    else { throw Failed("login.start names no destination") }
    return Pending(id: result.login_id, url: url, redirectURI: redirect, link: link)
  }

  /// Signs in at the provider, and stops before the address that the browser is sent back to is opened.
  func callback(of login: Pending) async throws -> Callback {
    let page = try await Browser.open(login.url)
    guard let location = page.location, location.hasPrefix(login.redirectURI) else {
      throw Failed("the provider answers \(page.status) \(page.location ?? page.body)")
    }
    return Callback(url: location)
  }

  func outcome(of login: Pending) async throws -> LoginWait.Result {
    try await client.call(LoginWait.self, .init(login_id: login.id, timeout: 20), timeout: .seconds(30))
  }

  /// The whole login through the real callback endpoint.
  @discardableResult
  func login(_ account: String = "alice", at provider: String = "demo", as user: String? = nil) async throws
    -> AccountView
  {
    let login = try await startLogin(account, at: provider, as: user)
    if let link = login.link, link != login.url {
      let opened = try await Browser.open(link)
      guard opened.location == login.url else { throw Failed("the link answers \(opened.status) \(opened.body)") }
    }
    let page = try await Browser.open(try await callback(of: login).url)
    guard page.status == 200 else { throw Failed("the callback endpoint answers \(page.status)") }
    guard let view = try await outcome(of: login).account else { throw Failed("the login is not completed") }
    return view
  }
}

/// The answer of `token.get` with an access token instead of a session.
@dynamicMemberLookup struct Token: Sendable, Equatable {
  var result: TokenGet.Result
  var access_token: String
  var token_type: String

  init(_ result: TokenGet.Result) throws {
    guard let token = result.access_token, let type = result.token_type else { throw Failed("that is not a token") }
    (self.result, access_token, token_type) = (result, token, type)
  }

  subscript<Value>(dynamicMember member: KeyPath<TokenGet.Result, Value>) -> Value { result[keyPath: member] }
}

struct Failed: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}
