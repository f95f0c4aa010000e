import Broker
import BrokerAPI
import NIOHTTP1
import Pages

/// A page for a user. Its texts are plain; rendering escapes and limits them.
struct Page: Equatable {
  typealias Fact = Notice.Fact

  var status: HTTPResponseStatus
  var tone: Tone
  /// The browser's title and the page's heading: the outcome.
  var heading: String
  var lead: String
  var facts: [Fact] = []
  /// The message of the provider or the broker.
  var detail: String?
  /// What to do next.
  var hint: String?
  /// The browser's next URL.
  var location: Location?
  /// In addition to those of every page.
  var extraHeaders: [String: String] = [:]

  /// The same without redirects that a script cannot follow, for the broker's own page that replaces it.
  var inPlace: Page {
    guard goesOnByItself else { return self }
    var page = self
    (page.status, page.lead) = (.ok, "The sign-in continues at another page.")
    return page
  }

  /// The status makes a browser follow the location (RFC 9110 §15.4.4).
  var goesOnByItself: Bool { location != nil && status == .seeOther }

  var headers: [(String, String)] {
    let location = goesOnByItself ? location.map { [("Location", $0.text)] } ?? [] : []
    return location + extraHeaders.sorted { $0.key < $1.key }
  }
}

// MARK: - Outcomes

extension Page {
  private static let canClose = "You can close this window."
  private static let again = "Run `grantctl login` again."
  private static let other = "Open the link of the latest sign-in, or run `grantctl login` again."

  init(_ outcome: CallbackOutcome) {
    switch outcome {
    case .completed(_, let login):
      let who = login.identity.map { who in
        [Fact(label: "Signed in as", value: who.bestName), Fact(label: "Name", value: who.name ?? "")]
      }
      self.init(
        status: .ok, tone: .good, heading: "Signed in", lead: Self.canClose,
        facts: (who ?? []) + [
          Fact(label: "Account", value: login.account), Fact(label: "Provider", value: login.provider),
          Fact(label: "Asked for by", value: login.program ?? ""),
        ])
    case .alreadyCompleted:
      self.init(
        status: .ok, tone: .neutral, heading: "Already completed",
        lead: "This sign-in was completed before; nothing was done again. \(Self.canClose)",
        hint: "`grantctl status` shows the account. To sign in once more, run `grantctl login` again.")
    case .expired(let error):
      self.init(
        status: .ok, tone: .bad, heading: "Sign-in expired",
        lead: "You are not signed in: too much time passed since the sign-in was started. Nothing was stored.",
        hint: error.hint ?? "")
    case .signedOut(let provider):
      self.init(
        status: .ok, tone: .good, heading: "Signed out", lead: Self.canClose,
        facts: [Fact(label: "Provider", value: provider)])
    case .actionRequired(_, let message):
      self.init(
        status: .ok, tone: .neutral, heading: "One more thing to do", lead: "You are not signed in yet.",
        detail: message.prefix(1).uppercased() + message.dropFirst(),
        hint: "Go back to the program that started the sign-in: it asks for the rest. \(Self.canClose)")
    case .failed(let error): self.init(failed: error)
    case .refused(let error):
      // The standard hint is for pasted URLs; the message has the next step for a browser.
      self.init(refused: error, hint: error.hint == ErrorReason.invalidCallback.defaultHint ? nil : error.hint)
    case .foreign(let error): self.init(refused: error, hint: error.hint)
    case .redirect(let url):
      guard let location = Location(url) else {
        self = .badRedirect
        return
      }
      self.init(
        status: .seeOther, tone: .neutral, heading: "One more step", lead: "Your browser opens the next page.",
        location: location)
    case .otherUser: self = .otherUser
    case .unknownUser: self = .unknownUser
    }
  }

  private init(failed error: RPCError) {
    let hint = error.hint ?? ""
    switch error.reason {
    case .loginDenied, .loginCancelled:
      self.init(
        status: .ok, tone: .bad, heading: "Sign-in declined", lead: "You are not signed in. Nothing was stored.",
        detail: error.message, hint: hint.isEmpty ? Self.again : hint)
    case .providerError, .temporarilyUnavailable, .providerMisconfigured:
      self.init(
        status: .badGateway, tone: .bad, heading: "Problem at the provider",
        lead: "You are not signed in. The provider answered with an error, or did not answer.", detail: error.message,
        hint: hint.isEmpty ? "Try again later with `grantctl login`." : hint)
    case nil, .unknownAccount, .unknownProvider, .unknownLogin, .notPermitted, .loginRequired, .loginExpired,
      .loginInProgress, .invalidCallback, .timedOut, .scopeNotGranted, .unsupportedByProvider, .registrationRejected,
      .rateLimited, .overloaded, .storeFailure, .shuttingDown, .invalidConfiguration, .invalidBackup,
      .keyNotReplaceable, .locked:
      self.init(
        status: .badGateway, tone: .bad, heading: "Sign-in failed", lead: "You are not signed in.",
        detail: error.message, hint: hint.isEmpty ? Self.again : hint)
    }
  }

  private init(refused error: RPCError, hint: String?) {
    let hint = hint ?? ""
    self.init(
      status: .badRequest, tone: .bad, heading: "Answer not accepted",
      lead: "This link does not match a pending sign-in, or its answer is invalid. A pending sign-in is still open.",
      detail: error.message, hint: hint.isEmpty ? Self.other : hint)
  }

  init(_ opening: LoginOpening) {
    switch opening {
    case .request(let url): self.init(.redirect(url: url))
    case .spent(let again): self = .spent(again: again)
    case .otherUser: self = .otherUser
    case .unknownUser: self = .unknownUser
    case .unavailable: self = .restarting
    }
  }
}
