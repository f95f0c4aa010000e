import BrokerAPI
import DemoProvider
import Foundation

/// A code that no provider issued.
let invalidParams = RPCError.invalidParams("").code

// Sign-in systems that speak no OAuth: the same steps at the socket, and the same demo server.
extension Rig {
  /// A rig with `[provider.cameras]` at the demo server's VMS.
  static func withVMS(
    _ lines: String = "", redirect: String = "vms-demo://external-auth", _ body: (Rig) async throws -> Void
  ) async throws {
    try await with(sections: { $0.system("cameras", "vms", redirect, lines) }, body)
  }

  /// A rig with `[provider.news]` at the demo server's Zephr.
  static func withZephr(
    _ lines: String = "default_identity_provider = \"google\"", redirect: String = "zephr-demo://auth",
    _ body: (Rig) async throws -> Void
  ) async throws {
    try await with(sections: { $0.system("news", "zephr", redirect, lines) }, body)
  }

  func system(_ name: String, _ kind: String, _ redirect: String, _ lines: String = "") -> String {
    """
    [provider.\(name)]
    kind = "\(kind)"
    base_url = "\(demo.issuer)"
    redirect_uri = "\(redirect)"
    \(lines)

    """
  }

  /// Starts a login at such a system.
  func begin(_ provider: String, _ account: String = "alice", _ more: JSON = [:]) async throws -> Pending {
    var params: [JSON.Member] = [
      .init(name: "provider", value: .string(provider)), .init(name: "account", value: .string(account)),
    ]
    if case .object(let members) = more { params += members }
    let result = try await call("login.start", .object(params))
    let places = result["destinations"]?.array ?? []
    // The request; a browser of this machine would get a link to it.
    guard let place = places.first(where: { $0["kind"] == "manual" }) ?? places.first, let url = place["url"]?.string,
      let redirect = place["redirect_uri"]?.string, let id = result["login_id"]?.string
    else { throw Failed("login.start names no destination") }
    return Pending(id: id, url: url, redirectURI: redirect)
  }

  /// What the sign-in page leads to, for this user.
  func signIn(_ login: Pending, as user: String = "alice") async throws -> String {
    let page = try await Browser.open("\(login.url)&login_hint=\(user)")
    guard let location = page.location else { throw Failed("the page answers \(page.status) \(page.body)") }
    return location
  }

  @discardableResult
  func hand(_ address: String) async throws -> JSON {
    try await call("login.handle_callback", ["url": .string(address)])
  }

  func wait(_ login: Pending, _ timeout: Double = 20) async throws -> JSON {
    try await call("login.wait", ["login_id": .string(login.id), "timeout": .number("\(timeout)")])
  }

  @discardableResult
  func resume(_ login: Pending, _ name: String, _ value: JSON) async throws -> JSON {
    try await call(
      "login.continue", .object([.init(name: "login_id", value: .string(login.id)), .init(name: name, value: value)]))
  }

  /// The complete sign-in, if no step is missing.
  @discardableResult
  func enter(_ provider: String, _ account: String = "alice", as user: String? = nil) async throws -> AccountView {
    let login = try await begin(provider, account)
    try await hand(try await signIn(login, as: user ?? account))
    guard let view = try await outcome(of: login).account else { throw Failed("the login is not completed") }
    return view
  }

  /// The last request to an endpoint, its body read.
  func lastBody(_ place: DemoServer.Fault.Place) -> DemoServer.JSON? {
    requests(place).last.flatMap { DemoServer.JSON(text: $0.body) }
  }

  /// One step of a logout, as `revoke_access_token done`.
  func logoutSteps(_ account: String = "alice", _ more: [JSON.Member] = []) async throws -> [String] {
    let params = [JSON.Member(name: "account", value: .string(account))] + more
    let result = try await call("account.logout", .object(params))
    return (result["steps"]?.array ?? []).map { "\($0["step"]?.string ?? "") \($0["result"]?.string ?? "")" }
  }
}
