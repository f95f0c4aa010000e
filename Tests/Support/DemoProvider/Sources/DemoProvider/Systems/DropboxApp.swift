import Foundation
import Synchronization

extension DemoServer {
  /// The user's action in Dropbox's application.
  public enum AppAnswer: String, Sendable, CaseIterable {
    case allow
    /// Allowed, and told as older applications do: the code in `oauth_token_secret`.
    case allowOld = "allow_old"
    case cancel
  }

  /// What Dropbox's application does with an address that opens it (`dbapi-2://1/connect?…`): the callback that it
  /// answers with. Throws `Misuse` where the address is none of its own.
  public func openDropboxApp(
    _ address: String, answer: AppAnswer = .allow, user: String = "alice"
  ) throws(Misuse) -> String {
    do throws(ControlFailure) {
      return try provider.openDropboxApp(address, answer: answer, user: user)
    } catch {
      throw Misuse(description: error.description)
    }
  }
}

extension Provider {
  func openDropboxApp(
    _ address: String, answer: DemoServer.AppAnswer, user name: String
  ) throws(ControlFailure) -> String {
    guard let user = User(hint: name) else { throw ControlFailure("user is alice, bob or user-N") }
    let asked = try DropboxAppRequest(address)
    let now = options.now()
    guard let client = client(asked.clientID, at: now) else { throw ControlFailure("k is not a client") }
    let callback = "db-\(client.id)://1/"
    guard answer != .cancel else { return callback + "cancel" }
    var approved = Ledger.Approved(clientID: client.id, user: user)
    approved.scopes = asked.scopes ?? Dropbox.scopes
    approved.challenge = asked.challenge
    // Its own URL, regardless of the one of the web login.
    approved.redirectURI = Dropbox.redirectURI(of: client)
    approved.isOffline = asked.isOffline
    let pairs = try ledger.withLock { ledger throws(ControlFailure) in
      guard asked.challenge == nil else {
        let code = ledger.issueCode(for: approved, at: now)
        let isOld = answer == .allowOld
        return isOld ? [("oauth_token", "oauth2code:"), ("oauth_token_secret", code)] : [("oauth_code", code)]
      }
      let asking = Ledger.Asking(client: client, origin: .authorize, scopes: nil, now: now, dialect: .dropbox)
      do throws(OAuthFailure) {
        let issued = try ledger.open(approved, for: asking, isRefreshable: false, authenticated: now)
        return [
          ("oauth_token", "oauth2:"), ("oauth_token_secret", issued.accessToken),
          ("uid", Dropbox.identity(of: user)["uid"]?.string ?? ""),
        ]
      } catch {
        throw ControlFailure(error.description)
      }
    }
    return (callback + "connect").adding(pairs + [("state", asked.state)])
  }
}

/// The address that opens the application, read strictly: what is wrong in it is the test's finding.
private struct DropboxAppRequest {
  var clientID: String
  var state: String
  /// Nil where a token is asked for.
  var challenge: String?
  var isOffline = false
  var scopes: [String]?

  init(_ address: String) throws(ControlFailure) {
    let parts = address.split(separator: "?", maxSplits: 1).map(String.init)
    guard parts.count == 2, ["dbapi-2://1/connect", "dbapi-8-emm://1/connect"].contains(parts[0]) else {
      throw ControlFailure("the application is not at \(parts.first ?? "")")
    }
    let form = Form(encoded: parts[1])
    guard let key = form["k"], form.pairs.contains(where: { $0.name == "s" && $0.value.isEmpty }),
      let state = form["state"]
    else { throw ControlFailure("k, an empty s and state are needed") }
    (clientID, self.state) = (key, state)
    if let nonce = state.wordsAfter("oauth2:") {
      guard nonce.count == 1, nonce[0].utf8.count >= 16 else { throw ControlFailure("the nonce is short") }
      return
    }
    guard let words = state.wordsAfter("oauth2code:"), words.count == 3, words[1] == "S256" else {
      throw ControlFailure("state is oauth2:NONCE or oauth2code:CHALLENGE:S256:[offline]")
    }
    let extra = Form(encoded: form["extra_query_params"] ?? "")
    let kind = extra["token_access_type"]
    guard extra["code_challenge"] == words[0], extra["code_challenge_method"] == "S256",
      extra["response_type"] == "code", kind ?? "" == words[2]
    else { throw ControlFailure("extra_query_params are not those of the state") }
    challenge = words[0]
    isOffline = kind == "offline"
    scopes = extra.words("scope")
  }
}

extension String {
  /// What follows a prefix, at each colon.
  fileprivate func wordsAfter(_ prefix: String) -> [String]? {
    guard hasPrefix(prefix) else { return nil }
    return dropFirst(prefix.count).split(separator: ":", omittingEmptySubsequences: false).map(String.init)
  }
}
