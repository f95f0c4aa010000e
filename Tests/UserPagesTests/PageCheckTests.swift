import NIOHTTP1
import Testing

@testable import UserPages

@Suite struct PageCheckTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var method = HTTPMethod.GET
    var host = "127.0.0.1:4444"
    var headers: [(String, String)] = []
    var expected: PageCheck.Classification
  }

  static let own = ("Origin", "http://127.0.0.1:4444")

  static let cases = [
    Case(testDescription: "typed", headers: [("Sec-Fetch-Site", "none")], expected: .accepted),
    Case(testDescription: "old browser", expected: .accepted),
    Case(testDescription: "link of the page", headers: [("Sec-Fetch-Site", "same-origin")], expected: .accepted),
    Case(
      testDescription: "form", method: .POST, headers: [own, ("Sec-Fetch-Site", "same-origin")], expected: .accepted),
    Case(testDescription: "form of an old browser", method: .POST, headers: [own], expected: .accepted),
    Case(testDescription: "form without Origin", method: .POST, expected: .foreignPage),
    Case(
      testDescription: "form typed", method: .POST, headers: [own, ("Sec-Fetch-Site", "none")], expected: .foreignPage),
    Case(testDescription: "null", method: .POST, headers: [("Origin", "null")], expected: .foreignPage),
    Case(testDescription: "two origins", method: .POST, headers: [own, own], expected: .foreignPage),
    Case(testDescription: "other port", headers: [("Sec-Fetch-Site", "same-site")], expected: .foreignPage),
    Case(testDescription: "other site", headers: [("Sec-Fetch-Site", "cross-site")], expected: .foreignPage),
    Case(
      testDescription: "two sites", headers: [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "x")],
      expected: .foreignPage
    ),
    Case(
      testDescription: "other port's origin", headers: [("Origin", "http://127.0.0.1:4445")], expected: .foreignPage),
    Case(testDescription: "https", headers: [("Origin", "https://127.0.0.1:4444")], expected: .foreignPage),
    Case(testDescription: "frame", headers: [("Sec-Fetch-Dest", "iframe")], expected: .foreignPage),
    Case(testDescription: "prefetch", headers: [("Sec-Purpose", "prefetch;prerender")], expected: .speculative),
    Case(testDescription: "rebinding", host: "evil.example:4444", expected: .foreignHost),
    Case(testDescription: "localhost", host: "localhost:4444", expected: .foreignHost),
    Case(testDescription: "no port", host: "127.0.0.1", expected: .foreignHost),
    Case(testDescription: "PUT", method: .PUT, headers: [own], expected: .wrongMethod),
  ]

  @Test("Only the page's own requests are accepted", arguments: cases)
  func classification(_ test: Case) {
    var head = HTTPRequestHead(version: .http1_1, method: test.method, uri: "/")
    head.headers.add(name: "Host", value: test.host)
    for (name, value) in test.headers { head.headers.add(name: name, value: value) }
    #expect(PageCheck(port: 4444).classification(of: head) == test.expected)
  }

  @Test(
    "The one cookie of this name is used",
    arguments: [
      ("grantd-1=a", "a"), ("x=y; grantd-1=a", "a"), ("grantd-1=a; grantd-1=b", nil), ("grantd-12=a", nil), ("", nil),
      ("grantd-1=a=b", "a=b"),
    ] as [(String, String?)])
  func cookie(header: String, value: String?) {
    var head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/")
    head.headers.add(name: "Cookie", value: header)
    #expect(head.cookie("grantd-1") == value)
  }
}
