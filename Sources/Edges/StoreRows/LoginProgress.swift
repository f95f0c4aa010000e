import FoundationEssentials
import Grants
import OAuth

/// How far a login has come, as its column has it, which is sealed whole.
struct LoginProgress: Codable {
  private var memory: [String: String]?
  private var action: LoginAction?
  private var exchangesCode: Bool?
  private var offered: OpenedDestination?
  private var opened: OpenedDestination?
  private var browserUID: UInt32?
  private var link: Link?
  private var audience: String?

  private struct Link: Codable {
    var token: String
    var request: String?
  }

  init(_ login: SavedLogin) {
    // Exposed to be sealed.
    memory = login.memory.isEmpty ? nil : login.memory.mapValues(\.exposed)
    action = login.action
    exchangesCode = login.exchangesCode ? nil : false
    offered = login.offered
    opened = login.opened
    browserUID = login.browserUID
    audience = login.audience
    link = login.link.map { Link(token: $0.token.exposed, request: $0.request?.exposed) }
  }

  /// Nothing has to be written.
  var isEmpty: Bool {
    memory == nil && action == nil && exchangesCode == nil && offered == nil && opened == nil && browserUID == nil
      && link == nil && audience == nil
  }

  func apply(to login: inout SavedLogin) {
    login.memory = (memory ?? [:]).mapValues { Secret($0) }
    login.action = action
    login.exchangesCode = exchangesCode ?? true
    login.offered = offered
    login.opened = opened
    login.browserUID = browserUID
    login.audience = audience
    login.link = link.map { LoginLink(token: Secret($0.token), request: $0.request.map { Secret($0) }) }
  }
}
