import BrokerAPI
import Pages

/// Releases and refusals over time, as bars.
struct Plot {
  enum Span: String, CaseIterable {
    case hour, day, week

    init(_ text: String?) { self = text.flatMap(Span.init(rawValue:)) ?? .day }

    var seconds: Int64 {
      switch self {
      case .hour: 3600
      case .day: 86_400
      case .week: 604_800
      }
    }

    var name: HTML {
      switch self {
      case .hour: "Last hour"
      case .day: "Last day"
      case .week: "Last week"
      }
    }

    /// Bars.
    var count: Int {
      switch self {
      case .hour: 30
      case .day: 24
      case .week: 28
      }
    }
  }

  let span: Span
  private(set) var releases: [Double]
  private(set) var refusals: [Double]

  /// A record covers a time: its count is spread over that evenly.
  init(_ records: [AuditList.Line], _ span: Span, until now: Int64) {
    self.span = span
    releases = Array(repeating: 0, count: span.count)
    refusals = releases
    let width = span.seconds / Int64(span.count)
    let start = now - span.seconds
    for record in records {
      let isRefused = ["not_permitted", "rate_limited"].contains(record.result)
      guard isRefused || (record.result == "ok" && [.release, .use].contains(record.action)) else { continue }
      func bar(_ at: Int64) -> Int { Int(min(max(0, (at - start) / width), Int64(span.count - 1))) }
      let bars = bar(min(record.first, record.last))...bar(record.last)
      for index in bars {
        let part = Double(record.count) / Double(bars.count)
        if isRefused { refusals[index] += part } else { releases[index] += part }
      }
    }
  }

  var html: HTML {
    let most = max(1, zip(releases, refusals).map(+).max() ?? 1)
    let bars = (0..<span.count).map { index -> HTML in
      let (x, ok, no) = (index * 10 + 1, height(releases[index], most), height(refusals[index], most))
      return "<rect class=\"ok\" x=\"\(x)\" y=\"\(100 - ok)\" width=\"8\" height=\"\(ok)\"/>"
        + "<rect class=\"no\" x=\"\(x)\" y=\"\(100 - ok - no)\" width=\"8\" height=\"\(no)\"/>"
    }
    let (released, refused) = (Int(releases.reduce(0, +).rounded()), Int(refusals.reduce(0, +).rounded()))
    let label =
      "\(PageText.count(released, "release")) and \(PageText.count(refused, "refusal")), at most \(Int(most.rounded())) in one bar"
    return """
      <svg class="plot" viewBox="0 0 \(span.count * 10) 101" preserveAspectRatio="none" role="img" aria-label="\(label)">\
      \(bars)<line class="axis" x1="0" y1="100.5" x2="\(span.count * 10)" y2="100.5"/></svg>
      <p class="key"><span><b class="ok"></b>\(PageText.count(released, "release"))</span>\
      <span><b class="no"></b>\(PageText.count(refused, "refusal"))</span></p>

      """
  }

  /// Something is seen of every count.
  private func height(_ count: Double, _ most: Double) -> Int {
    count <= 0 ? 0 : max(3, Int((count / most * 100).rounded()))
  }
}
