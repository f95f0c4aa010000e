import Testing

@testable import UserPages

@Suite struct RefreshTimesTests {
  private static let metrics = """
    # TYPE grantd_refresh_duration_seconds histogram
    grantd_refresh_duration_seconds_bucket{provider="demo",le="0.1"} 3
    grantd_refresh_duration_seconds_count{provider="demo"} 4
    grantd_refresh_duration_seconds_sum{provider="demo"} 0.5
    grantd_refresh_duration_seconds_count{provider="slow"} 2
    grantd_refresh_duration_seconds_sum{provider="slow"} 31
    grantd_refresh_duration_seconds_count{provider="idle"} 0
    grantd_refresh_duration_seconds_sum{provider="idle"} 0
    # EOF
    """

  @Test(
    "The mean of each provider",
    arguments: [("demo", "125 ms"), ("slow", "15 s"), ("idle", "none yet"), ("x", "none yet")])
  func mean(provider: String, words: String) {
    #expect(RefreshTimes(Self.metrics).words(of: provider) == words)
  }
}
