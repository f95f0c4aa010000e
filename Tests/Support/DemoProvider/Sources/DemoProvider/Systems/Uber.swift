import Foundation
import Synchronization

/// Uber: `/oauth/v2/{product}/authorize`, `/oauth/v2/par`, `/oauth/v2/token`.
enum Uber {
  static let products = ["universal", "riders", "eats", "drivers"]

  /// The known data of a user.
  fileprivate static let hints: Set = ["email", "phone", "first_name", "last_name"]
}

extension Provider {
  /// Uber's push holds who asks and a hint, nothing else: the request itself stays in the address (not as RFC 9126).
  func pushHint(_ turn: Turn) throws(OAuthFailure) -> Response {
    let form = turn.request.form
    if let name = form.repeated { throw .invalidRequest("\(name) occurs twice") }
    let client = try client(of: turn)
    guard form["response_type"] == "code", let encoded = form["login_hint"] else {
      throw .invalidRequest("response_type=code and login_hint are needed")
    }
    let foreign = form.pairs.first { !["client_id", "response_type", "login_hint"].contains($0.name) }
    if let foreign { throw .invalidRequest("\(foreign.name) is not pushed") }
    guard let bytes = Data(base64Encoded: encoded), case .object(let hint)? = DemoServer.JSON(text: bytes.asText),
      !hint.isEmpty, Set(hint.keys).isSubset(of: Uber.hints), hint.values.allSatisfy({ $0.string != nil })
    else { throw .invalidRequest("login_hint is a base64 JSON object of texts") }
    let uri = "urn:ietf:params:oauth:request_uri:\(Base64URL.random())"
    let name = hint["email"]?.string ?? ""
    let settings = ledger.withLock { ledger in
      let expires = turn.now.addingTimeInterval(ledger.settings.authorization.parTTL.asSeconds)
      let kept = Form([("login_hint", name)])
      ledger.pushed.insert(.init(clientID: client.id, form: kept, isSigned: false, expires: expires), for: uri)
      ledger.count(.push)
      ledger.prefills.append(.object(hint))
      if ledger.prefills.count > Limits.requestLog { ledger.prefills.removeFirst() }
      return ledger.settings.authorization
    }
    let members: DemoServer.JSON = [
      "request_uri": .string(uri), "expires_in": .int(Int(settings.parTTL.asSeconds)),
    ]
    return .json(members.overlaid(with: settings.parExtra), status: settings.parStatus)
  }
}

extension Data {
  fileprivate var asText: String { String(decoding: self, as: UTF8.self) }
}
