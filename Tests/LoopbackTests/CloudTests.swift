import Testing

@testable import Loopback

@Suite struct CloudTests {
  @Test("Whose token it is")
  func claims() throws {
    // {"iss":"https://i","sub":"s-1"}
    let identity = try #require(JWTClaims.identity(of: "e30.eyJpc3MiOiJodHRwczovL2kiLCJzdWIiOiJzLTEifQ.x"))
    #expect(identity == .init(issuer: "https://i", subject: "s-1"))
    for text in ["", "opaque", "a.b", "e30.!!.x", "e30.W10"] { #expect(JWTClaims.identity(of: text) == nil) }
  }

  @Test("A query has each parameter once, and its escapes are whole")
  func queries() {
    #expect(QueryParameters.decode("a=1&b=x%2Fy+z") == ["a": "1", "b": "x/y z"])
    #expect(
      QueryParameters.decode("a=1&a=2") == nil && QueryParameters.decode("a=%z") == nil
        && QueryParameters.decode("") == [:])
    #expect(
      QueryParameters.unescaped("me%40example.com/token") == "me@example.com/token"
        && QueryParameters.unescaped("%4") == nil)
  }
}
