import TestSupport
import Testing

@testable import Broker

/// The parts of a request to a provider's API that a caller chooses: the judges of `request.send`, rules and `/forward`.
@Suite struct CallerRequestTests {
  private func matchesAny(_ path: String) throws -> Bool {
    try #require(RequestPattern("* *")).matches(APIRequest(method: "GET", host: "api.example.com", path: path))
  }

  @Test("a path that a server could read as another one passes no check", arguments: RequestPaths.ambiguous)
  func ambiguous(_ path: String) throws {
    #expect(try matchesAny(path) == false)
    #expect(!PlainPath.isPlain(path) && !PlainPath.isPlain(path, allowsEmptySteps: true))
    for target in [path, path + "?", path + "?x=1"] {
      #expect(!PlainPath.isPlain(target: target) && !PlainPath.isCertainlyPlain(target: target))
      #expect(!PlainPath.isVerbatim(target: target))
    }
  }

  @Test("an empty step is allowed only if requested", arguments: RequestPaths.emptySteps)
  func emptySteps(_ path: String) throws {
    #expect(try matchesAny(path) == false)
    #expect(!PlainPath.isPlain(path) && PlainPath.isPlain(path, allowsEmptySteps: true))
    #expect(PlainPath.isPlain(target: path) && !PlainPath.isVerbatim(target: path))
  }

  @Test("other paths pass, and some of them are verbatim", arguments: RequestPaths.plain + RequestPaths.verbatim)
  func plain(_ path: String) throws {
    #expect(try matchesAny(path))
    #expect(PlainPath.isPlain(path) && PlainPath.isPlain(path, allowsEmptySteps: true))
    let isVerbatim = RequestPaths.verbatim.contains(path)
    for target in [path, path + "?", path + "?x=/../y//z&a.b?"] {
      #expect(PlainPath.isPlain(target: target) && PlainPath.isVerbatim(target: target) == isVerbatim)
      #expect(!isVerbatim || PlainPath.isCertainlyPlain(target: target))
    }
  }

  @Test("the path of a target ends at the byte of its question mark")
  func query() {
    #expect(!PlainPath.isPlain(target: "/a/..?\u{301}") && !PlainPath.isPlain(target: "/a/%2e%2e?\u{301}"))
    #expect(PlainPath.isPlain(target: "/a?\u{301}") && !PlainPath.isVerbatim(target: "/a?\u{301}"))
  }

  @Test("the quick checks pass nothing that the whole examination refuses", arguments: UInt64(0)..<8)
  func quick(_ seed: UInt64) {
    var chance = SeededGenerator(seed: seed)
    let pieces = [
      "/", "/", "/", ".", ".", "..", "a", "b1", "%2e", "%2F", "%", "%00", "\\", ";", " ", "?", "\u{301}", "\u{FF0E}",
      "\u{7F}", "\t", "&", "=", "~",
    ]
    var (certain, verbatim) = (0, 0)
    for _ in 0..<1000 {
      // Some do not begin with a slash.
      var target = Bool.random(using: &chance) ? "/" : ""
      for _ in 0..<Int.random(in: 0...6, using: &chance) { target += pieces.randomElement(using: &chance) ?? "" }
      let path = String(decoding: target.utf8.prefix { $0 != UInt8(ascii: "?") }, as: UTF8.self)
      if PlainPath.isCertainlyPlain(target: target) {
        certain += 1
        #expect(PlainPath.isPlain(path, allowsEmptySteps: true), "\(target)")
      }
      if PlainPath.isVerbatim(target: target) {
        verbatim += 1
        #expect(PlainPath.isPlain(path) && PlainPath.isCertainlyPlain(target: target), "\(target)")
      }
      #expect(PlainPath.isPlain(target: target) == PlainPath.isPlain(path, allowsEmptySteps: true), "\(target)")
    }
    #expect(certain > 0 && verbatim > 0)
  }

  @Test(
    "headers of the connection, credentials and overrides of the request are refused in any spelling",
    arguments: RequestHeaders.refused)
  func headers(_ name: String) {
    for name in RequestHeaders.spellings(of: name) { #expect(CallerHeaders.isRefused(name), "\(name)") }
  }

  @Test("others are not", arguments: RequestHeaders.allowed)
  func otherHeaders(_ name: String) {
    for name in RequestHeaders.spellings(of: name) { #expect(!CallerHeaders.isRefused(name), "\(name)") }
  }

  @Test("the tests know every refused header")
  func allHeaders() {
    #expect(Set(RequestHeaders.refused.map { $0.lowercased() }) == Set(CallerHeaders.refused))
    #expect(Set(RequestHeaders.ofConnection.map { $0.lowercased() }) == Set(CallerHeaders.ofConnection))
    #expect(Set(RequestHeaders.credentials.map { $0.lowercased() }) == Set(CallerHeaders.credentials))
  }
}
