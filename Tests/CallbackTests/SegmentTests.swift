import Testing

@testable import Callback

@Suite("Paths for a single segment below them")
struct SegmentTests {
  private static let paths = Paths(
    ["/callback", "/news/*"], publicSite: .init(origin: "https://broker.example.com", paths: ["/web/*"]))

  @Test(
    "exactly one segment of any content",
    arguments: [
      ("/news/n-1", true), ("/news/%2F", true), ("/news/", false), ("/news", false), ("/news/a/b", false),
      ("/callback", true), ("/callback/x", false), ("/x/news/a", false), ("/web/1", true), ("", false), ("/", false),
    ])
  func contains(path: String, isServed: Bool) {
    #expect(Self.paths.contains(path) == isServed)
  }

  @Test("under the name that it is registered for")
  func sites() throws {
    let own = try #require(Self.paths.site(of: "127.0.0.1:8400", port: 8400))
    let web = try #require(Self.paths.site(of: "broker.example.com", port: 8400))
    #expect(own.contains("/news/1") && !own.contains("/web/1"))
    #expect(web.contains("/web/1") && !web.contains("/news/1"))
  }
}
