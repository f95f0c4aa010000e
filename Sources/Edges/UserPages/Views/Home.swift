import BrokerAPI
import HTTPServer
import Pages
import PlainText

/// The accounts: problems first, each with its fix.
extension Ask {
  /// Cards of a page, and of problems above them.
  private static let most = 24
  private static let mostProblems = 12

  func home() async -> HTTPReply {
    let status: BrokerStatus.Result
    switch await call(BrokerStatus.self, NoParams()) {
    case .success(let result): status = result
    case .failure(let error): return page(nothing(error))
    }
    let after = query["after"]
    let onlyProblems = query["problems"] != nil
    let problems = await self.problems(
      status, after: onlyProblems ? after : nil, isWanted: onlyProblems || after == nil)
    let listed: AccountList.Result
    if onlyProblems {
      listed = .init(accounts: [], next: nil)
    } else {
      switch await call(AccountList.self, .init(after: after, limit: Self.most)) {
      case .success(let result): listed = result
      case .failure(let error): return page(nothing(error))
      }
    }
    let waiting = await waiting(status)
    let shown = Set(problems.accounts.map(\.account))
    let bad = problems.accounts.map(card)
    let rest = listed.accounts.filter { !shown.contains($0.account) }.map(card)
    let cards = [bad, rest].filter { !$0.isEmpty }.map { cards -> HTML in "<div class=\"cards\">\(cards)</div>\n" }
    let all = status.accounts.values.reduce(0, +)
    let count = Self.problemCount(status)
    let notes = SystemProblems(status, now: now).html
    let ask: HTML =
      waiting == 0
      ? ""
      : """
      <div class="message warn"><p>\(PageText.count(waiting, "request")) for a token \(waiting == 1 ? "waits" : "wait") for your approval.</p>\
      <p class="controls"><a class="button" href="/approvals">Look at approvals</a></p></div>

      """
    let body: HTML =
      all == 0
      ? Parts.empty(
        "No accounts yet", "Sign in once. Your programs then get fresh tokens from grantd.",
        "<a class=\"button main\" href=\"/add\">Add an account</a>")
      : "\(cards)\(pages(problems, listed, onlyProblems))"
    let more: HTML =
      problems.next != nil && !onlyProblems
      ? "<p><a href=\"/?problems=1\">Show all \(count) accounts with a problem</a></p>\n" : ""
    return page(
      View(
        title: onlyProblems ? "Accounts with a problem" : "Accounts", section: .home,
        lead: "<p class=\"lead\">\(PageText.count(all, "account"))\(count == 0 ? "" : ", \(count) with a problem")</p>",
        controls: all == 0 ? "" : "<a class=\"button main\" href=\"/add\">Add an account</a>",
        main: ask + notes + more + body, said: count == 0 ? "" : "\(PageText.count(count, "account")) with a problem"))
  }

  private static func problemCount(_ status: BrokerStatus.Result) -> Int {
    AccountState.allCases.filter(\.isProblem).reduce(0) { $0 + (status.accounts[$1.rawValue] ?? 0) }
  }

  /// Without a problem nothing is searched.
  private func problems(_ status: BrokerStatus.Result, after: String?, isWanted: Bool) async -> AccountList.Result {
    guard isWanted, Self.problemCount(status) > 0,
      case .success(let result) = await call(
        AccountList.self,
        .init(after: after, limit: query["problems"] == nil ? Self.mostProblems : Self.most, problems: true))
    else { return .init(accounts: [], next: nil) }
    return result
  }

  /// How many releases wait for this user; a refused call would be in the audit trail.
  private func waiting(_ status: BrokerStatus.Result) async -> Int {
    guard status.caller?.access[Access.manage.rawValue] != nil,
      case .success(let result) = await call(ReleaseList.self, NoParams())
    else { return 0 }
    return result.waiting.count
  }

  private func nothing(_ error: RPCError) -> View {
    guard error.reason == .notPermitted else { return .failed("Accounts", error, section: .home) }
    return View(
      title: "Accounts", section: .home,
      main: Parts.empty(
        "No rule lets you see accounts", "\(words: Parts.sentence(error.nextStep ?? error.message))",
        "<a class=\"button\" href=\"/access\">What you may do</a>"))
  }

  private func pages(_ problems: AccountList.Result, _ listed: AccountList.Result, _ onlyProblems: Bool) -> HTML {
    guard let next = onlyProblems ? problems.next : listed.next else {
      return query["after"] == nil ? "" : "<p class=\"pages\"><a href=\"/\">First page</a></p>\n"
    }
    let first: HTML = query["after"] == nil ? "" : "<a class=\"button\" href=\"/\">First page</a>"
    let kind: HTML = onlyProblems ? "problems=1&amp;" : ""
    return """
      <nav class="pages" aria-label="Pages">\(first)<a class="button" href="/?\(kind)after=\(query: next)">Next page</a>\
      <form method="get" action="/"><label for="after">Names after</label>\
      <input id="after" name="after" autocomplete="off"><button>Go</button></form></nav>

      """
  }

  // MARK: A card

  func card(_ account: AccountView) -> HTML {
    let who: HTML = account.identity.map { "<bdi>\($0.bestName, limit: 128)</bdi> · " } ?? ""
    let error: HTML =
      account.last_error.map { Parts.message(account.state.tone, $0.message, step(account, $0)) } ?? soon(account)
    let again: HTML = account.state == .loginRequired || account.refresh_expires_soon == true ? "main" : "quiet"
    return """
      <article class="card \(account.state.tone)"><div class="title"><h2><bdi>\(account.account, limit: 128)</bdi></h2>\
      \(Parts.badge(account.state.tone, account.state.words))</div>
      <p class="who">\(who)<bdi>\(account.provider, limit: 64)</bdi></p>
      \(time(account))\(error)<div class="controls">\
      \(form("/login", [("provider", account.provider), ("account", account.account)], "<button class=\"\(again)\">Sign in again</button>"))\
      <a class="button quiet" href="/use?account=\(query: account.account)">Use in …</a>\
      <a class="button quiet" href="/logout?account=\(query: account.account)">Sign out</a></div></article>

      """
  }

  /// The button of the card replaces the command.
  private func step(_ account: AccountView, _ error: AccountView.LastError) -> String {
    account.state == .loginRequired ? "Sign in again: until then programs get no new token." : error.hint
  }

  private func soon(_ account: AccountView) -> HTML {
    guard account.refresh_expires_soon == true, let end = account.refresh_expires_at else { return "" }
    return Parts.message(
      "warn", "the sign-in ends \(TimeText.until(end, now: now))", "Sign in again before then, so that nothing stops.")
  }

  private func time(_ account: AccountView) -> HTML {
    guard let end = account.expires_at else { return "<p class=\"time\">The token has no known end.</p>\n" }
    let left = end - now
    let life = max(1, end - (account.last_refresh_at ?? account.logged_in_at))
    let words = left > 0 ? "\(TimeText.duration(left)) left" : "Expired \(TimeText.ago(end, now: now))"
    let next = account.next_refresh_at.map { ", next refresh \(TimeText.until($0, now: now))" } ?? ""
    let tone: HTML = left > 0 ? account.state.tone : "bad"
    return """
      <div class="time">\(Parts.bar(Double(left) / Double(life), tone, label: words))\
      <p>\(words)\(account.state == .loginRequired ? "" : next)</p></div>

      """
  }
}
