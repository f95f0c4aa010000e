import Foundation
import NIOHTTP1
import Synchronization

extension Provider {
  /// The control API. It serves test programs only: a request of a web page carries an Origin and is refused.
  func control(_ command: String, _ request: Request) -> Response {
    guard !request.headers.contains(name: "origin") else {
      return .json(["error": "the control API is not for web pages"], status: 403)
    }
    do throws(ControlFailure) {
      switch (request.method, command) {
      case (.GET, "stats"): return .json(stats().json)
      case (.GET, "settings"): return .json(ledger.withLock { $0.settings.json })
      case (.POST, "settings"): return try change(request)
      case (.GET, "fault"): return .json(DemoServer.Fault.catalogue)
      case (.POST, "fault"):
        try add(DemoServer.Fault(body(of: request)))
        return .json(["ok": true])
      case (.POST, "reset"):
        reset()
        return .json(["ok": true])
      case (.POST, "token"):
        return try facts(of: body(of: request))
      case (.POST, "revoke_user"):
        guard let name = try body(of: request)["user"]?.string, let user = User(hint: name) else {
          throw ControlFailure("user is alice, bob or user-N")
        }
        return .json(["revoked": .int(revoke(user))])
      case (.POST, "rotate_keys"):
        return .json(["kid": .string(try rotateKeys(keepingOld: body(of: request)["keep_old"]?.bool ?? true))])
      default: return .json(["error": "no such command"], status: 404)
      }
    } catch {
      return .json(["error": .string(error.description)], status: 400)
    }
  }

  private func body(of request: Request) throws(ControlFailure) -> DemoServer.JSON {
    if request.body.isEmpty { return [:] }
    guard let json = DemoServer.JSON(text: request.body) else { throw ControlFailure("the body is not JSON") }
    return json
  }

  private func facts(of body: DemoServer.JSON) throws(ControlFailure) -> Response {
    let now = options.now()
    if let text = body["token"]?.string { return .json(ledger.withLock { $0.facts(of: text, at: now) }) }
    guard let fingerprint = body["refresh_token_sha256"]?.string else {
      throw ControlFailure("the body names a token or a refresh_token_sha256")
    }
    return .json(ledger.withLock { $0.facts(of: $0.refreshToken(fingerprint: fingerprint) ?? "", at: now) })
  }

  private func change(_ request: Request) throws(ControlFailure) -> Response {
    guard case .object(let patch) = try body(of: request) else { throw ControlFailure("settings are a JSON object") }
    return try ledger.withLock { ledger throws(ControlFailure) in
      ledger.settings = try ledger.settings.patched(by: patch)
      return .json(ledger.settings.json)
    }
  }

  func add(_ fault: DemoServer.Fault) throws(ControlFailure) {
    try fault.check()
    try ledger.withLock { ledger throws(ControlFailure) in
      guard ledger.faults.count < Limits.faults else { throw ControlFailure("too many faults are set") }
      ledger.faults.append(fault)
    }
  }

  /// Faults, counts and settings as at the start; grants and keys stay.
  func reset() {
    ledger.withLock { ledger in
      ledger.faults = []
      ledger.counts = [:]
      ledger.faultHits = [:]
      ledger.settings = options.settings
    }
  }

  func revoke(_ user: User) -> Int {
    ledger.withLock { $0.endGrants(of: user) }
  }

  /// A new signing key; the old ones stay published or vanish. Its identifier.
  func rotateKeys(keepingOld: Bool) throws(ControlFailure) -> String {
    guard let key = try? SigningKey() else { throw ControlFailure("no key could be made") }
    ledger.withLock { ledger in
      ledger.keys = Array(([key] + (keepingOld ? ledger.keys : [])).prefix(Limits.signingKeys))
    }
    return key.kid
  }
}
