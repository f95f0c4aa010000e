import NIOHTTP1
import Pages

/// Pages of the endpoint itself.
extension Page {
  static let badRedirect = Page(
    status: .badGateway, tone: .bad, heading: "Sign-in failed",
    lead: "The sign-in continues at a URL that a browser cannot open.", hint: "Start the sign-in again.")

  static let tooSlow = Page(
    status: .gatewayTimeout, tone: .neutral, heading: "Still waiting for the provider",
    lead: "The provider has not answered yet. The sign-in may still complete.",
    hint: "The program that started the sign-in shows the result. If it failed, start the sign-in again.")

  static let busy = Page(
    status: .serviceUnavailable, tone: .bad, heading: "Too many sign-ins at once",
    lead: "This sign-in was not processed, and is still open.", hint: "Reload this page in a few seconds.",
    extraHeaders: ["Retry-After": "5"])

  /// For a user with a link of another user's sign-in: it reveals nothing of the login.
  static let otherUser = Page(
    status: .forbidden, tone: .bad, heading: "Sign-in of another user",
    lead: "Another user of this machine started this sign-in. Nothing was done, and it is still open.",
    hint: "Open the URL as the user who started the sign-in. If it is for you, start it yourself with "
      + "`grantctl login`, or as root with `grantctl login --browser-uid UID`.")

  static let unknownUser = Page(
    status: .forbidden, tone: .bad, heading: "Browser not recognized",
    lead: "The system cannot identify the user of this browser, so nothing was done. The sign-in is still open.",
    hint: "Use `grantctl login --manual`: open the URL that it prints, and paste the final URL of the browser.")

  static func spent(again: String) -> Page {
    Page(
      status: .gone, tone: .bad, heading: "Link already used",
      lead: "This link works once: it was opened before, or its sign-in has ended.",
      hint: "Continue in the window where it was opened, or run `\(again)` again.")
  }

  static let linkTooSlow = Page(
    status: .gatewayTimeout, tone: .bad, heading: "No answer in time",
    lead: "grantd could not store in time that this link was opened.", hint: "Run `grantctl login` again.")

  static let restarting = Page(
    status: .serviceUnavailable, tone: .neutral, heading: "grantd is restarting",
    lead: "Nothing was done, and the sign-in is still open.", hint: "Reload this page in a few seconds.",
    extraHeaders: ["Retry-After": "5"])

  static let speculative = Page(
    status: .serviceUnavailable, tone: .neutral, heading: "Not opened yet",
    lead: "The browser loaded this page in advance. Nothing was done.", hint: "Reload this page to sign in.")

  static let embedded = Page(
    status: .forbidden, tone: .bad, heading: "Not in a separate window",
    lead: "A sign-in is completed only in a separate browser window, not inside another page.",
    hint: "Start the sign-in again.")

  static let idle = Page(
    status: .ok, tone: .neutral, heading: "Sign-ins are completed here", lead: "Nothing was done.")

  static let notFound = Page(
    status: .notFound, tone: .neutral, heading: "Nothing here",
    lead: "This server only completes sign-ins, and this is not the path of one.",
    hint: "If a provider sent you here, compare the redirect URI registered there with the configured one.")

  static let methodNotAllowed = Page(
    status: .methodNotAllowed, tone: .neutral, heading: "Method not allowed",
    lead: "A sign-in is completed by opening this URL (GET).", extraHeaders: ["Allow": "GET, HEAD, POST"])

  static let posted = Page(
    status: .forbidden, tone: .bad, heading: "Not this way",
    lead: "Another page sent a request here. It was not processed.",
    hint:
      "If this was the provider, its answer must be in the URL: see `response_mode` in the configuration.")

  static let notFragment = Page(
    status: .unsupportedMediaType, tone: .bad, heading: "Request not understood",
    lead: "This request does not come from a page of this server.")

  static let fragmentTooLong = addressTooLong(.payloadTooLarge)

  static let foreignHost = Page(
    status: .misdirectedRequest, tone: .bad, heading: "Wrong address",
    lead: "The URL contains a host name that does not belong to this server. Nothing was done.",
    hint:
      "Use 127.0.0.1 or [::1], with the port. Behind a reverse proxy, set `public_url` to its URL.")

  static let badRequest = Page(
    status: .badRequest, tone: .bad, heading: "Request not understood",
    lead: "This is not an HTTP request of a browser.")

  static let requestLineTooLong = addressTooLong(.uriTooLong)

  private static func addressTooLong(_ status: HTTPResponseStatus) -> Page {
    Page(
      status: status, tone: .bad, heading: "Address too long",
      lead: "The URL of the answer is too long. A pending sign-in is still open.",
      hint: "Request fewer scopes, and start the sign-in again.")
  }

  static let headersTooLarge = Page(
    status: .requestHeaderFieldsTooLarge, tone: .bad, heading: "Request too large",
    lead: "The browser sent too many or too large headers. A pending sign-in is still open.",
    hint: "Clear the cookies for this site, and reload this page.")

  static let requestTimeout = Page(
    status: .requestTimeout, tone: .bad, heading: "Request incomplete",
    lead: "The browser did not finish its request in time.", hint: "Reload this page.")
}
