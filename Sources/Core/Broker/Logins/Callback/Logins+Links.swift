import FoundationEssentials
import Grants
import OAuth

// The link of a login, and whose browser may open it and come back.
extension Logins {
  /// Nil: the browser does not open a link, since the redirect URI is not on this machine's loopback interface.
  func link(to place: AuthorizationPlace, _ kinds: [String], _ redirectURI: RedirectURI) -> LoginLink? {
    guard kinds.contains("browser"), redirectURI.isLoopback else { return nil }
    return LoginLink(token: Secret(system.token(bytes: 16)), request: Secret(place.url.absoluteString))
  }

  /// A browser opened a link. Only the login's own user gets information, and uses it up.
  func openLogin(token: String, from browser: BrowserUser) async -> LoginOpening {
    guard let login = table.login(ofLink: Secret(token)) else { return .spent(again: "grantctl login") }
    let saved = login.saved
    if let refusal = refusal(of: browser, saved) { return .refused(refusal) }
    guard !isDraining else { return .unavailable }
    guard login.isPending, saved.expiresAt > now, let request = saved.link?.request, moved(saved) == nil else {
      return .spent(again: "grantctl login \(saved.provider) \(saved.account)")
    }
    table[saved.id]?.saved.link?.request = nil
    await saveIfPending(saved.id, "that a login was opened")
    // Exposed to its own user's browser.
    return .request(url: request.exposed)
  }

  /// Nil: the browser may continue. If a proxy passes callbacks on, its connection does not identify the user.
  func refusal(of browser: BrowserUser, _ login: SavedLogin) -> BrowserRefusal? {
    // The users of another machine have other numbers. The `state` still has to be the login's.
    guard isOwn(login), RedirectURI(rawValue: login.redirectURI)?.isLoopback == true,
      let refusal = BrowserRefusal(browser, for: login.browserUser)
    else { return nil }
    browserRefusals.refused(browser, at: login)
    return refusal
  }
}

extension LoginOpening {
  fileprivate static func refused(_ refusal: BrowserRefusal) -> LoginOpening {
    switch refusal {
    case .otherUser: .otherUser
    case .unknownUser: .unknownUser
    }
  }
}
