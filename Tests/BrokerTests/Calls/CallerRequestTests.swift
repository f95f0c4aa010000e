import Broker
import Testing

/// What a caller may put into a request to a provider's API: the judges of `request.send`, rules and `/forward`.
@Suite struct CallerRequestTests {
  @Test(
    "a path that a server could read as another one is not plain",
    arguments: [
      "/a/../b", "/a/%2e%2e/b", "/a/%252e%252e/b", "/a/.%2e;x=1/b", "/a\\..\\b", "/a/%c0%ae%c0%ae/b",
      "/a/%e0%80%ae%e0%80%ae/b", "/a/%ef%bc%8e%ef%bc%8e/b", "/a/..%20/b", "/a/.%20", "/a/%e2%80%a4./b",
      "/a/..%e2%88%95b",
      "/a/%00", "/a/%0d%0a", "/a//b", "/a/%25252525252e/b",
    ])
  func steps(_ path: String) { #expect(!PlainPath.isPlain(path)) }

  @Test(
    "other paths are",
    arguments: ["/", "/a/b", "/a/b/", "/a/.well-known/x", "/a/...", "/a/b%20c", "/%e9", "/caf%c3%a9/x"])
  func plain(_ path: String) { #expect(PlainPath.isPlain(path)) }

  @Test("an empty step is allowed only if requested")
  func emptySteps() { #expect(PlainPath.isPlain("/a//b", allowsEmptySteps: true) && !PlainPath.isPlain("/a//b")) }

  @Test(
    "headers of the connection, credentials and overrides of the request are refused in any spelling",
    arguments: [
      "X-HTTP-Method-Override", "x_http_method_override", "X-Original-URI", "X_Original_URI", "X-Forwarded-Method",
      "Transfer_Encoding", "Proxy-Connection", "Cookie2", "HTTP2-Settings", "AUTHORIZATION", "Content_Length",
    ])
  func headers(_ name: String) { #expect(CallerHeaders.isRefused(name)) }

  @Test("others are not", arguments: ["Accept", "X-Request-ID", "If-None-Match", "Content-Type", "X_Request_ID"])
  func otherHeaders(_ name: String) { #expect(!CallerHeaders.isRefused(name)) }
}
