import AsyncClient
import BlockingClient
import BrokerAPI
import DemoProvider
import Foundation
import TestHTTP

// The systems that speak OAuth in their own way, by their shipped templates, at the demo server.
extension Rig {
  static let sevenPassRedirect = "de.7pass.example:/cb/authz"
  static let dropboxRedirect = "db-demo://2/token"
  static let uberRedirect = "myapp://oauth/consumer"

  static func withSevenPass(_ lines: String = "", _ body: (Rig) async throws -> Void) async throws {
    try await with(
      client(sevenPassRedirect),
      sections: { rig in
        rig.demo.changeSettings { $0.use(.sevenPass) }
        return """
          [provider.7pass]
          profile = "7pass"
          issuer = "\(rig.demo.issuer)"
          client_id = "demo"
          redirect_uri = "\(sevenPassRedirect)"
          api_base = "\(rig.demo.issuer)"
          \(lines)

          """
      }, body)
  }

  static func withDropbox(_ lines: String = "", _ body: (Rig) async throws -> Void) async throws {
    try await with(
      client(dropboxRedirect),
      sections: { rig in
        rig.demo.changeSettings { $0.use(.dropbox) }
        return """
          [provider.dropbox]
          profile = "dropbox"
          client_id = "demo"
          redirect_uri = "\(dropboxRedirect)"
          authorization_endpoint = "\(rig.demo.issuer)/oauth2/authorize"
          token_endpoint = "\(rig.demo.issuer)/oauth2/token"
          revocation_endpoint = "\(rig.demo.issuer)/2/auth/token/revoke"
          api_base = "\(rig.demo.issuer)/2"
          api_origins = []
          \(lines)

          """
      }, body)
  }

  static func withUber(_ lines: String = "", _ body: (Rig) async throws -> Void) async throws {
    try await with(
      client(uberRedirect),
      sections: { rig in
        rig.demo.changeSettings { $0.use(.uber) }
        let base = "\(rig.demo.issuer)/oauth/v2"
        let apps = [("rides", "riders"), ("eats", "eats"), ("driver", "drivers")].map {
          "{ app = \"\($0.0)\", url = \"\(base)/\($0.1)/authorize\" }"
        }
        return """
          [provider.uber]
          profile = "uber"
          client_id = "demo"
          redirect_uri = "\(uberRedirect)"
          authorization_endpoint = "\(base)/universal/authorize"
          token_endpoint = "\(base)/token"
          pushed_authorization_request_endpoint = "\(base)/par"
          native_apps = [\(apps.joined(separator: ", "))]
          \(lines)

          """
      }, body)
  }

  private static func client(_ redirect: String) -> Wish {
    Wish { $0.client = DemoServer.Client(id: "demo", redirectURIs: [redirect]) }
  }

  // MARK: Steps

  /// Starts a login.
  func start(
    _ provider: String, _ account: String = "alice", _ change: (inout LoginStart.Params) -> Void = { _ in }
  ) async throws -> LoginStart.Result {
    var params = LoginStart.Params(provider: provider, account: account)
    change(&params)
    return try await client.call(LoginStart.self, params, timeout: .seconds(30))
  }

  /// What is wrong with a login that cannot begin.
  func refusedStart(
    _ provider: String, _ account: String = "alice", _ change: (inout LoginStart.Params) -> Void = { _ in }
  ) async throws -> RPCError {
    do {
      let login = try await start(provider, account, change)
      throw Failed("the login \(login.login_id) should not begin")
    } catch SocketClientError.rpc(let error) {
      return error
    }
  }

  /// The URL to which a page sends the browser, signed in as this user.
  func address(_ url: String, as user: String? = nil) async throws -> String {
    let page = try await Browser.open(user.map { "\(url)&login_hint=\($0)" } ?? url)
    guard let location = page.location else { throw Failed("the page answers \(page.status) \(page.body)") }
    return location
  }

  /// Says which destination was opened, and does not wait.
  func opened(_ id: String, _ kind: String, app: String? = nil) async throws {
    let opened = LoginWait.Opened(kind: kind, app: app)
    _ = try await client.call(
      LoginWait.self, .init(login_id: id, timeout: 0, opened: opened), timeout: .seconds(30))
  }

  func ended(_ id: String) async throws -> LoginWait.Result {
    try await client.call(LoginWait.self, .init(login_id: id, timeout: 20), timeout: .seconds(30))
  }

  func refusedCallback(_ url: String) async throws -> RPCError {
    try await failure("login.handle_callback", ["url": .string(url)])
  }

  /// The error that a login ended with.
  func failedLogin(_ id: String) async throws -> RPCError {
    try await failure("login.wait", ["login_id": .string(id), "timeout": 20])
  }

  /// Signs in by the browser, and passes the URL on.
  @discardableResult
  func enterByBrowser(
    _ provider: String, _ account: String = "alice", _ change: (inout LoginStart.Params) -> Void = { _ in }
  ) async throws -> AccountView {
    let login = try await start(provider, account) {
      $0.destinations = ["browser"]
      change(&$0)
    }
    try await hand(try await address(login.url("browser"), as: account))
    guard let view = try await ended(login.login_id).account else { throw Failed("the login is not completed") }
    return view
  }

  /// An authorised call by the broker: its status, and its body.
  func send(_ url: String, _ account: String = "alice") async throws -> (status: Int, body: DemoServer.JSON?) {
    let result = try await call(
      "request.send", ["account": .string(account), "method": "GET", "url": .string(url)])
    return (
      Int(result["status"]?.integer ?? 0), DemoServer.JSON(text: result["body"]?.string ?? "")
    )
  }
}

extension LoginStart.Result {
  /// The address of a destination.
  func url(_ kind: String, app: String? = nil) throws -> String {
    guard let url = destinations.first(where: { $0.kind == kind && $0.app == app })?.url else {
      throw Failed("there is no destination \(kind) \(app ?? "")")
    }
    return url
  }

  /// The kinds of its destinations, with their applications.
  var kinds: [String] { destinations.map { [$0.kind, $0.app].compactMap(\.self).joined(separator: " ") } }
}

extension Browser {
  /// Sends a form, as a program does.
  static func post(_ url: String, _ form: String) async throws -> (status: Int, body: String) {
    let answer = try await TestRequest.form(url, form).send()
    return (answer.status, answer.body ?? "")
  }
}
