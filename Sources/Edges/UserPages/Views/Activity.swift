import BrokerAPI
import HTTPServer
import NIOHTTP1
import Pages
import PlainText

/// The audit trail: plots of releases and refusals, and the records with filters.
extension Ask {
  /// Records of a page, and at most for a plot.
  private static let most = 40
  private static let mostPlotted = 2000
  private static let mostExported = 5000

  func activity() async -> HTTPReply {
    switch await call(AuditList.self, filter(limit: Self.most, before: query["before"].flatMap { Int64($0) })) {
    case .failure(let error):
      guard error.reason == .notPermitted else { return page(.failed("Activity", error, section: .activity)) }
      return page(
        View(
          title: "Activity", section: .activity,
          main: Parts.empty(
            "No activity that you may see", "Users with <code>manage</code> access to an account see its activity."),
          // Each further look would be in the audit trail.
          isStill: true))
    case .success(let result):
      let span = Plot.Span(query["span"])
      let (plotted, isWhole) = await records(since: now - span.seconds)
      let plot = Plot(plotted, span, until: now)
      let note: HTML = isWhole ? "" : "<p class=\"soft\">Only the latest \(Self.mostPlotted) records are plotted.</p>"
      let next: HTML =
        result.next.map {
          "<p class=\"pages\"><a class=\"button\" href=\"/activity?\(filters())before=\($0)\">Older records</a></p>"
        } ?? ""
      return page(
        View(
          title: "Activity", section: .activity,
          lead: "<p class=\"lead\">Releases of tokens, and refusals</p>",
          controls: "<a class=\"button\" href=\"/activity.json?\(filters())\">Export as JSON</a>",
          main: """
            <div class="panel">\(spans(span))\(plot.html)\(note)</div>
            <h2>Records</h2>\(filterForm(span))\(table(result.records))\(next)
            """))
    }
  }

  func exportActivity() async -> HTTPReply {
    var records: [AuditList.Line] = []
    var before: Int64?
    repeat {
      switch await call(AuditList.self, filter(limit: AuditList.mostRecords, before: before)) {
      case .failure(let error): return page(.failed("Not exported", error, section: .activity), status: .conflict)
      case .success(let result):
        records += result.records
        before = result.next
      }
    } while before != nil && records.count < Self.mostExported
    let json = JSON(encoding: AuditList.Result(records: records, next: before))
    return .download(
      "application/json", name: "grantd-activity.json", json.text() + "\n")
  }

  private func records(since: Int64) async -> ([AuditList.Line], isWhole: Bool) {
    var records: [AuditList.Line] = []
    var before: Int64?
    repeat {
      var params = filter(limit: AuditList.mostRecords, before: before)
      params.since = since
      guard case .success(let result) = await call(AuditList.self, params) else { return (records, true) }
      records += result.records
      before = result.next
    } while before != nil && records.count < Self.mostPlotted
    return (records, before == nil)
  }

  private func filter(limit: Int, before: Int64?) -> AuditList.Params {
    AuditList.Params(
      account: query["account"], uid: query["uid"].flatMap { UInt32($0) }, unit: query["unit"],
      refused: query["refused"] == nil ? nil : true, limit: limit, before: before)
  }

  /// The filters as the beginning of a query.
  private func filters() -> HTML {
    var html: HTML = ""
    for (name, key) in [
      ("account" as HTML, "account"), ("uid", "uid"), ("unit", "unit"), ("refused", "refused"), ("span", "span"),
    ] {
      if let value = query[key] { html += "\(name)=\(query: value)&amp;" }
    }
    return html
  }

  private func spans(_ current: Plot.Span) -> HTML {
    let links = Plot.Span.allCases.map { span -> HTML in
      let mark: HTML = span == current ? " aria-current=\"true\" class=\"button\"" : " class=\"button quiet\""
      return "<a\(mark) href=\"/activity?span=\(query: span.rawValue)\">\(span.name)</a>"
    }
    return "<div class=\"controls spans\">\(links)</div>\n"
  }

  private func filterForm(_ span: Plot.Span) -> HTML {
    func field(_ name: HTML, _ label: HTML, _ value: String?) -> HTML {
      "<div><label for=\"f-\(name)\">\(label)</label><input id=\"f-\(name)\" name=\"\(name)\" value=\"\(value ?? "")\"></div>"
    }
    let refused: HTML = query["refused"] == nil ? "" : " checked"
    return """
      <form method="get" action="/activity" class="filters"><input type="hidden" name="span" value="\(span.rawValue)">\
      <div class="row">\(field("account", "Account", query["account"]))\(field("uid", "User (uid)", query["uid"]))\
      \(field("unit", "Unit", query["unit"]))<div class="check"><input type="checkbox" id="f-refused" name="refused" value="1"\(refused)>\
      <label for="f-refused">Only refusals</label></div><div class="go"><button>Filter</button></div></div></form>

      """
  }

  private func table(_ records: [AuditList.Line]) -> HTML {
    guard !records.isEmpty else { return Parts.empty("No records", "No record matches the filters.") }
    let rows = records.map { record -> HTML in
      let who = record.uid.map {
        PageText.caller(.init(uid: $0, unit: record.unit, user_unit: record.user_unit, exe: record.exe), for: user)
      }
      let isOK = record.result == "ok"
      let result = Parts.badge(isOK ? "good" : "bad", "\(record.result.replacing("_", with: " "))")
      let detail: HTML = record.detail.map { "<p><bdi>\($0, limit: 300)</bdi></p>" } ?? ""
      let count = record.count > 1 ? " (\(record.count) times)" : ""
      return """
        <tr><td class="nowrap">\(TimeText.ago(record.last, now: now))</td><td class="long"><bdi>\(record.account ?? "–")</bdi></td>\
        <td class="long">\(record.method)\(count)\(detail)</td><td class="long"><bdi>\(who ?? "grantd", limit: 200)</bdi></td>\
        <td>\(result)</td></tr>

        """
    }
    return """
      <div class="scroll" tabindex="0" role="region" aria-label="Records"><table class="records"><caption class="hidden">Records, the latest first</caption>
      <thead><tr><th scope="col">When</th><th scope="col">Account</th><th scope="col">What</th><th scope="col">Who</th>\
      <th scope="col">Result</th></tr></thead><tbody>\(rows)</tbody></table></div>

      """
  }
}
