import Foundation
import NIOHTTP1
import Synchronization

extension DemoServer {
  /// A logout token to post to a client's back channel (OIDC Back-Channel Logout §2.4), flaws included.
  public struct Logout: Sendable {
    /// What is wrong with the token; each name is its name in the control API.
    public enum Flaw: String, Sendable, CaseIterable {
      case wrongIssuer = "wrong_iss"
      case wrongAudience = "wrong_aud"
      case wrongSubject = "wrong_sub"
      case expired
      case noExpiry = "no_exp"
      /// `iat` an hour ahead.
      case issuedLater = "future_iat"
      case nonce = "with_nonce"
      case noEvents = "no_events"
      case wrongEvent = "wrong_event"
      case noSubjectNoSession = "no_sub_no_sid"
      case noSubject = "no_sub"
      case noSession = "no_sid"
      case noIdentifier = "no_jti"
      /// The `jti` of the token before.
      case replayed = "replayed_jti"
      case algNone = "alg_none"
      case algHS256 = "alg_hs256"
      case badSignature = "bad_signature"
      case unknownKid = "unknown_kid"
      case wrongType = "wrong_typ"
    }

    /// Where to; `http` on a loopback address.
    public var url: String
    /// The grant whose session ends; nil is the newest.
    public var grant: Int?
    public var flaws: Set<Flaw> = []
    /// Sent as it stands, in place of a token made for this.
    public var token: String?
    /// Whether the grant ends here too.
    public var endsGrant = false

    public init(to url: String, flaws: Set<Flaw> = []) {
      self.url = url
      self.flaws = flaws
    }
  }

  /// What the client's back channel answered.
  public struct LogoutAnswer: Sendable {
    /// 0 where nothing came.
    public var status: Int
    /// Names in lower case.
    public var headers: [String: String]
    public var body: String
    /// What was sent.
    public var token: String
  }
}

extension Provider {
  static let logoutCommand = "backchannel_logout"

  /// The control command: `url`, and `grant`, `flaws`, `logout_token`, `end` as wanted.
  func sendLogout(_ request: Request) async -> Response {
    guard request.method == .POST, !request.headers.contains(name: "origin") else {
      return .json(["error": "POST, and not from a web page"], status: 403)
    }
    do throws(ControlFailure) {
      let body = try body(of: request)
      var logout = DemoServer.Logout(to: body["url"]?.string ?? "")
      logout.grant = body["grant"]?.int
      logout.token = body["logout_token"]?.string
      logout.endsGrant = body["end"]?.bool ?? false
      for name in (body["flaws"] ?? []).strings ?? [] {
        guard let flaw = DemoServer.Logout.Flaw(rawValue: name) else { throw ControlFailure("unknown flaw \(name)") }
        logout.flaws.insert(flaw)
      }
      let answer = try await send(logout)
      return .json([
        "status": .int(answer.status), "headers": .object(answer.headers.mapValues { .string($0) }),
        "body": .string(answer.body), "logout_token": .string(answer.token),
      ])
    } catch {
      return .json(["error": .string(error.description)], status: 400)
    }
  }

  func send(_ logout: DemoServer.Logout) async throws(ControlFailure) -> DemoServer.LogoutAnswer {
    let url = try LoopbackPost.Target(logout.url)
    let token: String
    if let given = logout.token { token = given } else { token = try logoutToken(logout) }
    ledger.withLock { $0.count(.logoutToken) }
    let answer = await LoopbackPost.send(Form([("logout_token", token)]), to: url)
    return DemoServer.LogoutAnswer(
      status: answer?.status ?? 0, headers: answer?.headers ?? [:], body: answer?.body ?? "", token: token)
  }

  private func logoutToken(_ logout: DemoServer.Logout) throws(ControlFailure) -> String {
    let identifier = "logout-\(Base64URL.random())"
    let (grant, key, previous) = ledger.withLock { ledger in
      let newest = ledger.grants.keys.max()
      let grant = (logout.grant ?? newest).flatMap { ledger.grants[$0] }
      if logout.endsGrant, let grant { ledger.end(grant.id, because: "logged out") }
      defer { ledger.lastLogout = logout.flaws.contains(.replayed) ? ledger.lastLogout : identifier }
      return (grant, ledger.keys.first, ledger.lastLogout)
    }
    guard let grant, let key else { throw ControlFailure("there is no such grant") }
    let now = Int(options.now().timeIntervalSince1970)
    let event = "http://schemas.openid.net/event/backchannel-logout"
    var claims: [String: DemoServer.JSON] = [
      "iss": .string(issuer), "aud": .string(grant.approved.clientID), "sub": .string(grant.approved.subject),
      "sid": .string(grant.sessionID), "iat": .int(now), "exp": .int(now + Limits.logoutTokenLifetime),
      "jti": .string(identifier), "events": [event: [:]],
    ]
    var faults: [DemoServer.Fault] = []
    for flaw in logout.flaws {
      switch flaw {
      case .wrongIssuer: claims["iss"] = .string(Self.wrongIssuer)
      case .wrongAudience: claims["aud"] = "another-client"
      case .wrongSubject: claims["sub"] = "sub-somebody"
      case .expired: (claims["iat"], claims["exp"]) = (.int(now - 7200), .int(now - 3600))
      case .noExpiry: claims["exp"] = nil
      case .issuedLater: (claims["iat"], claims["exp"]) = (.int(now + 3600), .int(now + 3720))
      case .nonce: claims["nonce"] = "nonce-1"
      case .noEvents: claims["events"] = nil
      case .wrongEvent: claims["events"] = ["http://schemas.openid.net/event/other": [:]]
      case .noSubjectNoSession: (claims["sub"], claims["sid"]) = (nil, nil)
      case .noSubject: claims["sub"] = nil
      case .noSession: claims["sid"] = nil
      case .noIdentifier: claims["jti"] = nil
      case .replayed: claims["jti"] = .string(previous ?? identifier)
      case .algNone: faults.append(.init(.algNone, at: .any))
      case .algHS256: faults.append(.init(.algHS256, at: .any))
      case .badSignature: faults.append(.init(.badSignature, at: .any))
      case .unknownKid: faults.append(.init(.unknownKid, at: .any))
      case .wrongType: continue
      }
    }
    let type = logout.flaws.contains(.wrongType) ? "at+jwt" : "logout+jwt"
    guard let token = try? key.sign(.object(claims), type: type, faults: faults) else {
      throw ControlFailure("the logout token could not be signed")
    }
    return token
  }
}
