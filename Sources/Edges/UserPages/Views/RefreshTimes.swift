/// How long refreshes take, by provider, from the text of `broker.metrics` (OpenMetrics 1.0).
struct RefreshTimes {
  private static let name = "grantd_refresh_duration_seconds"

  private var sums: [String: Double] = [:]
  private var counts: [String: Double] = [:]

  init(_ metrics: String) {
    for line in metrics.split(separator: "\n") where line.hasPrefix(Self.name) {
      let rest = line.dropFirst(Self.name.count)
      guard let start = rest.firstRange(of: "provider=\""), let end = rest[start.upperBound...].firstIndex(of: "\""),
        let value = rest.split(separator: " ").dropFirst().first.flatMap({ Double($0) })
      else { continue }
      let provider = String(rest[start.upperBound..<end])
      if rest.hasPrefix("_sum{") { sums[provider, default: 0] += value }
      if rest.hasPrefix("_count{") { counts[provider, default: 0] += value }
    }
  }

  /// `34 ms`, on average since the broker's start.
  func words(of provider: String) -> String {
    guard let count = counts[provider], count > 0, let sum = sums[provider] else { return "none yet" }
    let milliseconds = sum / count * 1000
    guard milliseconds.isFinite, milliseconds < 1e9 else { return "none yet" }
    return milliseconds < 10_000 ? "\(Int(milliseconds.rounded())) ms" : "\(Int(milliseconds / 1000)) s"
  }
}
