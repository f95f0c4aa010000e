import HTTPServer
import NIOCore
import NIOHTTP1
import Pages
import Principals

/// The requests of one connection of a browser.
final class PageConversation: HTTPConversation {
  private let pages: UserPages
  private let caller: Caller?

  init(_ pages: UserPages, _ caller: Caller?) {
    self.pages = pages
    self.caller = caller
  }

  private var check: PageCheck? { pages.port.map(PageCheck.init(port:)) }

  func intake(of head: HTTPRequestHead) -> BodyHandling {
    guard let check, caller != nil else { return .refuse(HTTPReply(.unknownUser).last()) }
    switch check.classification(of: head) {
    case .accepted: break
    case .speculative: return .refuse(HTTPReply(.speculative))
    case .foreignHost: return .refuse(HTTPReply(.foreignHost(check.origin)).last())
    case .foreignPage: return .refuse(HTTPReply(.foreignPage).last())
    case .wrongMethod: return .refuse(HTTPReply(.wrongMethod).last())
    }
    guard head.method == .POST else { return .whole(atMost: 0) }
    let type = head.headers.first(name: "Content-Type")?.prefix { $0 != ";" }.lowercased()
    guard type == "application/x-www-form-urlencoded" else { return .refuse(HTTPReply(.notForm).last()) }
    return .whole(atMost: Fields.longestForm)
  }

  func answer(_ head: HTTPRequestHead, _ body: ByteBuffer, _ exchange: HTTPExchange) {
    guard let caller, let check else { return exchange.reply(HTTPReply(.unknownUser).last()) }
    switch String(head.path) {
    case PagePath.style: return exchange.reply(.asset("text/css; charset=utf-8", Stylesheet.text))
    case PagePath.script: return exchange.reply(.asset("text/javascript; charset=utf-8", PageScript.text))
    case let path where path.hasPrefix(PagePath.open):
      return exchange.reply(open(String(path.dropFirst(PagePath.open.utf8.count)), caller, check))
    default: break
    }
    let cookie = head.cookie(Self.cookieName(check.port))
    guard let cookie, let visit = pages.visit(cookie, of: caller.uid) else {
      return exchange.reply(HTTPReply(stranger(head, cookie, caller)))
    }
    guard let query = Fields(head.query), let form = Fields(String(decoding: body.readableBytesView, as: UTF8.self))
    else { return exchange.reply(HTTPReply(.notForm)) }
    if head.method == .POST {
      guard form[FormToken.name] == visit.formToken else { return exchange.reply(HTTPReply(.foreignPage)) }
    } else if head.path == PagePath.live {
      return LiveEvents(pages, visit, principal(caller, visit), exchange).begin()
    }
    let ask = Ask(pages, visit, principal(caller, visit), exchange, query: query, form: form)
    Task { exchange.reply(await ask.reply()) }
  }

  func words(for refusal: HTTPRefusal, line: [UInt8]) -> HTTPReply { HTTPReply(.unreadable) }

  /// The user as the kernel reports it for this connection, and the process that requested the link.
  private func principal(_ caller: Caller, _ visit: Visits.Visit) -> Principal {
    var caller = caller
    caller.pid = visit.opener
    return .peer(caller)
  }

  private static func cookieName(_ port: Int) -> String { "grantd-\(port)" }

  private func open(_ link: String, _ caller: Caller, _ check: PageCheck) -> HTTPReply {
    switch pages.use(link: link, by: caller) {
    case .spent: return HTTPReply(.spentLink)
    case .otherUser: return HTTPReply(.otherUser)
    case .tooMany: return HTTPReply(.tooManyVisits)
    case .opened(let visit):
      var reply = HTTPReply.seeOther("/?opened=1")
      reply.headers.add(
        name: "Set-Cookie",
        value: "\(Self.cookieName(check.port))=\(visit.id); Path=/; HttpOnly; SameSite=Strict")
      return reply
    }
  }

  /// Why a request has no session.
  private func stranger(_ head: HTTPRequestHead, _ cookie: String?, _ caller: Caller) -> PageNotice {
    guard let cookie else { return Fields(head.query)?["opened"] != nil ? .noCookies : .noVisit }
    return pages.isOfOther(cookie, than: caller.uid) ? .otherUser : .endedVisit
  }
}

extension HTTPReply {
  static func page(_ document: String, status: HTTPResponseStatus = .ok) -> HTTPReply {
    var headers = common
    headers.add(name: "Content-Type", value: "text/html; charset=utf-8")
    headers.add(name: "Content-Security-Policy", value: ContentPolicy.application)
    return HTTPReply(status, headers, body: ByteBuffer(string: document))
  }

  static func seeOther(_ path: String) -> HTTPReply {
    var headers = common
    headers.add(name: "Location", value: path)
    return HTTPReply(.seeOther, headers)
  }

  static func download(_ type: String, name: String, _ text: String) -> HTTPReply {
    var headers = common
    headers.add(name: "Content-Type", value: type)
    headers.add(name: "Content-Disposition", value: "attachment; filename=\"\(name)\"")
    return HTTPReply(.ok, headers, body: ByteBuffer(string: text))
  }

  fileprivate static func asset(_ type: String, _ text: String) -> HTTPReply {
    var headers = common
    headers.add(name: "Content-Type", value: type)
    headers.replaceOrAdd(name: "Cache-Control", value: "private, max-age=600")
    return HTTPReply(.ok, headers, body: ByteBuffer(string: text))
  }

  init(_ notice: PageNotice) {
    var headers = Self.common
    headers.add(name: "Content-Type", value: "text/html; charset=utf-8")
    headers.add(name: "Content-Security-Policy", value: ContentPolicy.still)
    self.init(notice.status, headers, body: ByteBuffer(string: notice.notice.document))
  }

  /// Not `no-referrer`: with it browsers send `Origin: null` with a form.
  static let common: HTTPHeaders = [
    "Cache-Control": "no-store", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=()",
  ]
}

enum FormToken {
  static let name = "form_token"
}
