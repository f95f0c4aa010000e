import Testing

@testable import CredentialHelpers

@Suite struct PlaceTests {
  @Test(
    "hosts are compared in one form",
    arguments: [
      ("git.example.com", "git.example.com"), ("GIT.Example.COM", "git.example.com"),
      ("git.example.com.", "git.example.com"), ("bücher.example", "xn--bcher-kva.example"),
      ("BÜCHER.example", "xn--bcher-kva.example"), ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
      ("münchen-ost.de", "xn--mnchen-ost-9db.de"), ("例え.テスト", "xn--r8jz45g.xn--zckzah"), ("127.0.0.1", "127.0.0.1"),
      ("[::1]", "::1"), ("2001:DB8::1", "2001:db8::1"), ("my_host", "my_host"), ("localhost", "localhost"),
    ])
  func hostsAreComparedInOneForm(text: String, form: String) {
    #expect(HostName(text)?.description == form)
  }

  @Test(
    "a text that is not a host has no form",
    arguments: [
      "", ".", "..", "a..b", ".a", "a b", "a/b", "a@b", "a\nb", "a\0b", "-a.b", "a-.b", "[::1", "::g", "a:b", "a%20b",
      "ａ b", String(repeating: "a", count: 64), String(repeating: "a.", count: 200) + "b", "ex%61mple.com", "a,b",
    ])
  func whatIsNoHostHasNoForm(text: String) {
    #expect(HostName(text) == nil)
  }

  @Test("full-width letters are not those of ASCII") func fullWidth() {
    #expect(HostName("ｅxample.com") != HostName("example.com"))
  }

  @Test(
    "addresses are taken apart",
    arguments: [
      ("https://Git.Example.com/a/b.git?c#d", "https", "git.example.com", nil, "/a/b.git", nil),
      ("https://ada:secret@h:8443", "https", "h", 8443, "", "ada"), ("https://a%40b@h/", "https", "h", nil, "/", "a@b"),
      ("https://x@evil.com@h/", "https", "h", nil, "/", "x@evil.com"), ("h:5000/p", nil, "h", 5000, "/p", nil),
      ("sparse+https://h/i/", "https", "h", nil, "/i/", nil), ("http://[::1]:8080/", "http", "::1", 8080, "/", nil),
      ("https://h:/", "https", "h", nil, "/", nil), ("HTTPS://H.", "https", "h", nil, "", nil),
      ("https://h?x@y", "https", "h", nil, "", nil), ("https://h#@y", "https", "h", nil, "", nil),
    ] as [(String, String?, String, Int?, String, String?)])
  func addressesAreTakenApart(
    text: String, scheme: String?, host: String, port: Int?, path: String, username: String?
  ) throws {
    let place = try #require(ServerLocation(text))
    #expect(place.scheme == scheme)
    #expect(place.host.description == host)
    #expect(place.port == port)
    #expect(place.path == path)
    #expect(place.username == username)
  }

  @Test(
    "a combining character hides no delimiter",
    arguments: [
      ("https://evil.example/\u{321}@good.example", "evil.example"),
      ("https://evil.example?\u{301}@good.example/", "evil.example"),
      ("https://evil.example#\u{301}@good.example/", "evil.example"),
      ("evil.example/\u{321}@good.example", "evil.example"),
      ("https://evil.example:443/\u{200D}@good.example/", "evil.example"),
      // Behind `@` the host follows, and this is none.
      ("https://good.example@\u{301}evil.example/", "xn--evil-uvc.example"),
      ("https://good.example:\u{301}@evil.example/", "evil.example"), ("https:/\u{301}/good.example/", "https"),
      ("https://good.example:\u{301}443/", nil), ("https://[\u{301}::1]/", nil), ("https://[::1]\u{301}:443/", nil),
    ] as [(String, String?)])
  func combining(text: String, host: String?) {
    #expect(ServerLocation(text)?.host.description == host)
  }

  @Test(
    "a text that names no server is not a URL",
    arguments: [
      "", "https://", "https:///p", "https://h:0/", "https://h:65536/", "https://h:x/", "1a://h/", "https://a b/",
      "https://h\\@evil.com/", "https://h\n/", "://h/", "https://:80/", "https://@/",
    ])
  func whatNamesNoServer(text: String) {
    #expect(ServerLocation(text) == nil)
  }
}
