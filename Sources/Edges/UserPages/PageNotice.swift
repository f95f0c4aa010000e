import NIOHTTP1
import Pages

/// Why a browser does not see a view.
struct PageNotice: Sendable {
  var status: HTTPResponseStatus
  var notice: Notice

  private init(_ status: HTTPResponseStatus, _ heading: String, _ lead: String, _ hint: String, tone: Tone = .bad) {
    self.status = status
    notice = Notice(tone: tone, heading: heading, lead: lead, hint: hint)
  }

  private static let again = "Run `grantctl ui` again. It opens a new link."

  static let noVisit = PageNotice(
    .forbidden, "Open this page with grantctl", "This browser has not opened the page with a link.",
    "Run `grantctl ui`. It opens a link that works once.", tone: .neutral)

  static let endedVisit = PageNotice(
    .forbidden, "This page has ended", "It was not used for ten minutes, or grantd has restarted. Nothing was done.",
    again, tone: .neutral)

  static let endedByUser = PageNotice(
    .ok, "Page closed", "Its cookie is of no use any more. You can close this window.", again, tone: .good)

  static let noCookies = PageNotice(
    .forbidden, "This browser keeps no cookies", "The page needs one cookie, which ends with the page.",
    "Allow cookies for 127.0.0.1, then run `grantctl ui` again.")

  static let spentLink = PageNotice(
    .gone, "Link already used", "A link of this page works once and for two minutes.", again)

  static let otherUser = PageNotice(
    .forbidden, "Page of another user", "Another user of this machine opened this page. Nothing was done.",
    "Run `grantctl ui` as yourself.")

  static let unknownUser = PageNotice(
    .forbidden, "Browser not recognized", "The kernel does not report which user's browser this is.",
    "Open the link in a browser on this machine, or through `ssh -L` as the same user.")

  static let tooManyVisits = PageNotice(
    .serviceUnavailable, "Too many open pages", "This user has too many pages open. The link is unused.",
    "Close some of the pages, and open the link again.")

  static let speculative = PageNotice(
    .serviceUnavailable, "Not opened yet", "The browser loaded this page in advance. Nothing was done.",
    "Reload this page.", tone: .neutral)

  static func foreignHost(_ origin: String) -> PageNotice {
    PageNotice(
      .misdirectedRequest, "Wrong address", "This page has only one address. Nothing was done.",
      "Use \(origin). With `ssh -L`, use the same port on both sides.")
  }

  static let foreignPage = PageNotice(
    .forbidden, "Request of another page", "Another page sent this request. Nothing was done.",
    "Open the page directly: run `grantctl ui`.")

  static let wrongMethod = PageNotice(
    .methodNotAllowed, "Method not allowed", "This page is opened with GET.", again)

  static let notForm = PageNotice(
    .badRequest, "Request not understood", "This is not a form of this page. Nothing was done.",
    "Go back, and reload the page.")

  static let unreadable = PageNotice(
    .badRequest, "Request not understood", "The browser's request cannot be read, or it is too long.",
    "Clear the cookies for 127.0.0.1, and reload the page.")
}
