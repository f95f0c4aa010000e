import Foundation
import Grants

@testable import OAuth
@testable import Providers

extension Target {
  /// URLs of a custom scheme from an application on this machine, or from any page: Dropbox's application, another
  /// application's answer that is passed on, a token in a fragment. Each provider has one login that waits.
  static let native = Target(name: "native", longest: 2048) { bytes in
    let address = ReturnedAddress(decoded(bytes))
    for isImplicit in [false, true] {
      let provider = natives(isImplicit: isImplicit)
      var waiting = login
      waiting.redirectURI = "db-KEY://2/token"
      waiting.memory["connect.state"] = connectState
      try checkNative(address, provider, waiting, isImplicit: isImplicit)
      waiting.opened = OpenedDestination(kind: "native", app: "dropbox")
      try checkNative(address, provider, waiting, isImplicit: isImplicit)
    }
    try checkBridge(address)
    try expect(!"\(address)".contains("state"), "an address prints itself")
  }

  private static let connectState = Secret("oauth2code:challenge:S256:offline")
  private static let bridge: SignInBridge = {
    guard let forward = URL(string: "https://op.example/external") else { preconditionFailure("this is an address") }
    return SignInBridge(scheme: "fb1234", forward: forward, inQuery: ["via": "native"], inFragment: ["via": "web"])
  }()

  private static func natives(isImplicit: Bool) -> OAuthProvider {
    var settings = provider(.oauth2).settings
    settings.client.id = "KEY"
    settings.signIn.isImplicit = isImplicit
    settings.signIn.identityMember = "account_id"
    settings.signIn.keepCallbackMembers = ["realmId"]
    settings.signIn.bridges = [bridge]
    if let url = URL(string: "dbapi-2://1/connect") {
      settings.signIn.native.apps = [NativeApp(name: "dropbox", url: url, style: .dropbox)]
    }
    return OAuthProvider(settings)
  }

  private static func checkNative(
    _ address: ReturnedAddress, _ provider: OAuthProvider, _ login: SavedLogin, isImplicit: Bool
  ) throws {
    let isOpen = login.opened != nil
    let claim = provider.claim(address, login: login)
    switch claim {
    case .foreign: return
    case .refused(let error): return try expectSayable(error.description)
    case .passOn(let url):
      return try expect(address.scheme == "fb1234" && url.host() == "op.example", "passed on to \(url)")
    case .unnamed:
      try expect(
        isOpen && address.scheme == "db-key" && address.host == "1" && address.path != "/connect",
        "an address that names no login fits one: \(address.text.debugDescription)")
    case .named:
      let said = [address.claimedState, DropboxConnect.state(of: address)]
      try expect(
        said.contains(login.state) || said.contains(connectState), "named by \(address.text.debugDescription)")
    }
    guard case .success(let answer) = provider.answer(to: address, login: login, metadata: metadata).end else {
      throw Broken(description: "a callback that is not signed asks for something")
    }
    switch answer {
    case .success(.issued(let issued)):
      try expect(
        isImplicit && claim == .named && !issued.tokens.accessToken.isEmpty && issued.tokens.refreshToken == nil,
        "a token that was not asked for")
      try expect(address.value("oauth_code") == nil || address.path != "/connect", "a code is taken for a token")
    case .success(.code(let code, let memory)):
      try expect(!isImplicit && claim == .named && !code.isEmpty, "a code that was not asked for")
      try expect(memory.values.allSatisfy { $0.exposed.utf8.count <= 1024 }, "a memory of any length")
    case .success(.action): throw Broken(description: "an action of a provider that has none")
    case .failure(.cancelled): try expect(claim == .named || isOpen, "an unknown state ends a login")
    case .failure(.denied(let error)):
      try expect(claim == .named, "an unknown state ends a login")
      try expectSayable(error.summary)
    case .failure(let error): try expectSayable(error.description)
    }
  }

  /// The next URL contains exactly the received values.
  private static func checkBridge(_ address: ReturnedAddress) throws {
    guard case .success(let url) = bridge.forwarded(address) else { return }
    let next = ReturnedAddress(url.absoluteString)
    try expect(next.scheme == "https" && next.host == "op.example" && next.path == "/external", "continues at \(url)")
    try expect(next.query.map(\.name) == ["code", "state", "via"] && next.fragment.isEmpty, "continues with \(url)")
    let source = next.value("via") == "native" ? address.query : address.fragment
    let codes = (source + address.query).filter { $0.name == "code" }.map(\.value)
    try expect(source.contains { $0.name == "state" && $0.value == next.value("state") }, "another state")
    try expect(codes.contains(next.value("code") ?? ""), "another code")
  }
}
