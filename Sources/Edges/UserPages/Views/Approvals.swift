import BrokerAPI
import HTTPServer
import NIOHTTP1
import Pages
import PlainText

/// Releases that wait for this user, and approvals that are active.
extension Ask {
  private static let most = 50
  /// Seconds of the longer approval.
  private static let span = 600.0

  func approvals() async -> HTTPReply {
    switch await call(ReleaseList.self, NoParams()) {
    case .failure(let error):
      guard error.reason == .notPermitted else { return page(.failed("Approvals", error, section: .approvals)) }
      return page(
        View(
          title: "Approvals", section: .approvals,
          main: Parts.empty(
            "Nothing to approve", "Only users with <code>manage</code> access to an account approve its releases.")))
    case .success(let list):
      let waiting = list.waiting.prefix(Self.most).map(waiting)
      let standing = list.standing.prefix(Self.most).map(standing)
      let more: HTML =
        list.waiting.count > Self.most
        ? "<p class=\"soft\">\(list.waiting.count - Self.most) more wait behind these.</p>\n" : ""
      let first: HTML =
        waiting.isEmpty
        ? Parts.empty(
          "No request waits",
          "A rule with <code>confirm</code> makes programs wait for you. Their requests appear here at once.")
        : "<div class=\"cards large\">\(Array(waiting))</div>\n\(more)"
      let second: HTML =
        standing.isEmpty
        ? "" : "<h2>Active approvals</h2>\n<div class=\"cards\">\(Array(standing))</div>\n"
      let count = list.waiting.count
      return page(
        View(
          title: "Approvals", section: .approvals,
          lead: "<p class=\"lead\">\(PageText.count(count, "request")) \(count == 1 ? "waits" : "wait")</p>",
          main: first + second, said: count == 0 ? "" : "\(PageText.count(count, "request")) for your approval",
          reload: 5))
    }
  }

  private func waiting(_ release: ReleaseView) -> HTML {
    let asked: HTML =
      release.request.map { "<div><dt>Request</dt><dd><bdi>\($0, limit: 300)</bdi></dd></div>" }
      ?? "<div><dt>Scopes</dt><dd>\((release.scopes ?? ["all that were granted"]).joined(separator: " "))</dd></div>"
    let resource: HTML = release.resource.map { "<div><dt>Resource</dt><dd><bdi>\($0)</bdi></dd></div>" } ?? ""
    func button(_ word: String, _ kind: HTML, _ label: HTML) -> HTML {
      form(
        "/approvals", [("id", release.id), ("word", word)],
        "<button class=\"\(kind)\" id=\"\(word)-\(release.id)\">\(label)</button>")
    }
    return """
      <article class="card warn"><div class="title"><h2><bdi>\(release.account)</bdi></h2>\
      <span class="badge warn"><span data-until="\(release.until)">\(TimeText.duration(release.until - now))</span> left</span></div>
      <dl><div><dt>Who</dt><dd><bdi>\(PageText.caller(release.caller, for: user), limit: 300)</bdi></dd></div>
      \(asked)\(resource)<div><dt>Rule</dt><dd><bdi>\(release.rule)</bdi></dd></div></dl>
      <div class="controls">\(button("once", "main", "Allow once"))\(button("span", "", "Allow for 10 minutes"))\
      \(button("deny", "quiet", "Deny"))</div></article>

      """
  }

  private func standing(_ approval: ApprovalView) -> HTML {
    let revoke: HTML =
      approval.id.map {
        form("/approvals", [("id", $0), ("word", "revoke")], "<button class=\"quiet\">Revoke</button>")
      } ?? ""
    let left = approval.calls_left.map { ", \($0) more times" } ?? ""
    let badge = approval.allowed ? Parts.badge("good", "Allowed") : Parts.badge("bad", "Denied")
    return """
      <article class="card"><div class="title"><h3><bdi>\(approval.account)</bdi></h3>\(badge)</div>
      <p class="who"><bdi>\(PageText.caller(approval.caller, for: user), limit: 300)</bdi></p>
      <p class="time">\(approval.method), for \(TimeText.duration(approval.until - now))\(left)</p>
      <div class="controls">\(revoke)</div></article>

      """
  }

  func answerRelease() async -> HTTPReply {
    guard let id = form["id"], let word = form["word"] else { return page(.notFound, status: .badRequest) }
    let result: Result<Bool, RPCError>
    switch word {
    case "once": result = await call(ReleaseApprove.self, .init(id: id)).map(\.approved)
    case "span": result = await call(ReleaseApprove.self, .init(id: id, for: Self.span)).map(\.approved)
    case "deny": result = await call(ReleaseDeny.self, .init(id: id)).map(\.denied)
    case "revoke": result = await call(ReleaseRevoke.self, .init(id: id)).map(\.revoked)
    default: return page(.notFound, status: .badRequest)
    }
    switch result {
    case .success(true): return .seeOther("/approvals")
    case .success(false):
      return page(
        View(
          title: "Nothing to answer", section: .approvals,
          main: Parts.message(
            "neutral", "the request has ended, or another answer was faster", nil,
            "<p class=\"controls\"><a class=\"button\" href=\"/approvals\">Approvals</a></p>"), isStill: true),
        status: .conflict)
    case .failure(let error): return page(.failed("Not answered", error, section: .approvals), status: .conflict)
    }
  }
}
