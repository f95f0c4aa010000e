import NIOHTTP1
import Testing

@testable import Loopback

/// Which requests are those of the clouds' SDKs, by their paths.
@Suite struct CloudPathTests {
  @Test(
    "a cloud's path names it in one step; without a name it is Azure's or Google's server of a machine",
    arguments: [
      ("/aws/work", true), ("/aws/work?x=1", true), ("/aws/", false), ("/aws", false), ("/aws/a/b", false),
      ("/azure/work", true), ("/azure/", false), ("/azure/a/b", false),
      ("/metadata/identity/oauth2/token", true), ("/metadata/identity/oauth2/token?resource=r", true),
      ("/metadata/identity/oauth2/token/", false), ("/metadata/identity", false), ("/metadata/instance", false),
      ("/computeMetadata/v1/", true), ("/computeMetadata/v1/instance/service-accounts/default/token", true),
      ("/computeMetadata/v1", false), ("/computeMetadata/v2/", false), ("/COMPUTEMETADATA/v1/", false),
      ("/", false), ("/token", false), ("/forward/aws/work", false), ("//aws/work", false),
    ])
  func paths(_ uri: String, _ isOne: Bool) {
    #expect(CloudRequests.isOne(HTTPRequestHead(version: .http1_1, method: .GET, uri: uri)) == isOne)
  }

  @Test("the root is Google's only with the header by which its libraries detect the server")
  func root() {
    func isOne(_ uri: String, _ headers: HTTPHeaders) -> Bool {
      CloudRequests.isOne(HTTPRequestHead(version: .http1_1, method: .GET, uri: uri, headers: headers))
    }
    #expect(isOne("/", ["Metadata-Flavor": "Google"]) && isOne("/", ["metadata-flavor": "x"]))
    #expect(!isOne("/", ["Metadata": "true"]) && !isOne("/token", ["Metadata-Flavor": "Google"]))
  }

  @Test(
    "a request's parameters: each once, with whole escapes",
    arguments: [
      ("/p", [:]), ("/p?", [:]), ("/p?a=1&b=", ["a": "1", "b": ""]), ("/p?a=x?y", ["a": "x?y"]),
      ("/p?resource=https%3A%2F%2Fapi%2F", ["resource": "https://api/"]), ("/p?a=1+2", ["a": "1 2"]),
      ("/p?a=1&A=2", ["a": "1", "A": "2"]), ("/p?a=1&a=1", nil), ("/p?a=1&%61=2", nil), ("/p?a=%4", nil),
      ("/p?a=%ff", nil),
    ] as [(String, [String: String]?)])
  func parameters(_ uri: String, _ values: [String: String]?) {
    #expect(queryParameters(HTTPRequestHead(version: .http1_1, method: .GET, uri: uri)) == values)
  }

  @Test(
    "a value in a path: only escapes are decoded, separators of forms are themselves",
    arguments: [
      ("a", "a"), ("a+b", "a+b"), ("a%2Bb", "a+b"), ("a%20b+c", "a b+c"), ("a=b&c%21", "a=b&c!"), ("%25", "%"),
      ("%zz", nil), ("a%", nil), ("%ff", nil), ("", ""),
    ] as [(String, String?)])
  func unescaped(_ path: String, _ value: String?) { #expect(QueryParameters.unescaped(path) == value) }
}
