import Foundation
import Testing

@testable import OAuth

@Suite("HTTP proxies")
struct HTTPProxyTests {
  @Test(
    "the URL of a proxy",
    arguments: [
      ("http://proxy.example.com:3128", "proxy.example.com:3128", String?.none, String?.none),
      ("http://Proxy.Example.com", "proxy.example.com:80", nil, nil),
      ("proxy.example.com:3128", "proxy.example.com:3128", nil, nil),
      ("http://proxy.example.com:3128/", "proxy.example.com:3128", nil, nil),
      ("http://[2001:db8::1]:3128", "[2001:db8::1]:3128", nil, nil),
      ("http://ada@proxy:3128", "proxy:3128", "ada", nil),
      ("http://ada:p%40ss+w:d@proxy:3128", "proxy:3128", "ada", "p@ss+w:d"),
      ("ada:secret@proxy:3128", "proxy:3128", "ada", "secret"),
    ])
  func url(text: String, authority: String, user: String?, password: String?) throws {
    let proxy = try HTTPProxy(text)
    #expect(proxy.authority == authority)
    #expect(proxy.user == user)
    #expect(proxy.password?.exposed == password)
    let pair = user.map { "\($0):\(password ?? "")" }
    #expect(proxy.authorization == pair.map { "Basic " + Data($0.utf8).base64EncodedString() })
    #expect("\(proxy)" == authority)
  }

  @Test(
    "what is not the URL of a proxy",
    arguments: [
      ("https://proxy.example.com", HTTPProxy.Failure.scheme), ("socks5://proxy:1080", .scheme),
      ("http://proxy/path", .path), ("http://proxy?query", .path), ("http://", .notURL), ("http://proxy:0", .notURL),
      ("http://proxy:65536", .notURL), ("http://a%ZZ@proxy", .notURL), ("http://a%0Ab@proxy", .notURL),
      ("http://pro xy", .notURL), ("http://fe80::1%25eth0", .notURL),
    ])
  func refused(text: String, failure: HTTPProxy.Failure) {
    #expect(throws: failure) { try HTTPProxy(text) }
  }

  @Test(
    "no_proxy",
    arguments: [
      // Names: with subdomains; only subdomains.
      ("example.com", "example.com", 443, true), ("example.com", "www.example.com", 443, true),
      ("example.com", "notexample.com", 443, false), ("example.com", "example.com.evil.test", 443, false),
      ("EXAMPLE.com", "example.com", 443, true), ("example.com.", "example.com", 443, true),
      ("example.com", "example.com.", 443, true), (".example.com", "www.example.com", 443, true),
      (".example.com", "example.com", 443, false), ("*.example.com", "a.b.example.com", 443, true),
      ("*.example.com", "example.com", 443, false), ("intranet", "intranet", 80, true),
      // Ports.
      ("example.com:8443", "example.com", 8443, true), ("example.com:8443", "example.com", 443, false),
      (".example.com:8443", "a.example.com", 8443, true), ("[2001:db8::7]:8443", "2001:db8::7", 8443, true),
      ("[2001:db8::7]:8443", "2001:db8::7", 443, false), ("192.0.2.7:80", "192.0.2.7", 80, true),
      // Addresses and networks; a name is never an address.
      ("192.0.2.7", "192.0.2.7", 443, true), ("192.0.2.7", "192.0.2.70", 443, false),
      ("10.0.0.0/8", "10.200.3.4", 443, true), ("10.0.0.0/8", "11.0.0.1", 443, false),
      ("192.0.2.128/25", "192.0.2.200", 443, true), ("192.0.2.128/25", "192.0.2.100", 443, false),
      ("0.0.0.0/0", "198.51.100.1", 443, true), ("0.0.0.0/0", "2001:db8::1", 443, false),
      ("2001:db8::/32", "2001:db8:1::1", 443, true), ("2001:db8::/32", "2001:db9::1", 443, false),
      ("2001:DB8::7", "2001:db8:0:0:0:0:0:7", 443, true), ("10.0.0.0/8", "10.example.com", 443, false),
      ("0.2.7", "192.0.2.7", 443, false),
      // All.
      ("*", "example.com", 443, true), ("*", "192.0.2.7", 80, true),
    ])
  func exceptions(pattern: String, host: String, port: Int, isIn: Bool) {
    var exceptions = ProxyExceptions()
    #expect(insert(pattern, &exceptions))
    #expect(exceptions.contains(host: host, port: port) == isIn)
  }

  @Test(
    "what is not an entry of no_proxy",
    arguments: [
      "", " ", "https://example.com", "example.com/path", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "example.com:",
      "example.com:0", "example.com:70000", "a..b", "*example.com", "[example.com]", "[::1", "ex ample", "a,b", ".",
      "*.",
    ])
  func noException(text: String) {
    var exceptions = ProxyExceptions()
    #expect(!insert(text, &exceptions))
    #expect(exceptions == ProxyExceptions())
  }

  private func insert(_ text: String, _ exceptions: inout ProxyExceptions) -> Bool { exceptions.insert(text) }

  @Test("the list has a limit")
  func most() {
    var exceptions = ProxyExceptions()
    for number in 0..<ProxyExceptions.most { #expect(insert("host\(number)", &exceptions)) }
    #expect(!insert("another", &exceptions))
  }

  @Test(
    "the proxy by scheme; servers of this machine have none",
    arguments: [
      (true, "example.com", Optional("secure:1")), (false, "example.com", "plain:2"), (true, "127.0.0.1", nil),
      (true, "127.9.9.9", nil), (true, "::1", nil), (false, "localhost", nil), (true, "app.localhost", nil),
      (true, "direct.example", nil), (true, "0.0.0.0", "secure:1"), (true, "192.168.1.1", "secure:1"),
    ])
  func choice(isSecure: Bool, host: String, authority: String?) throws {
    var exceptions = ProxyExceptions()
    #expect(insert("direct.example", &exceptions))
    let proxies = HTTPProxies(
      http: try HTTPProxy("plain:2"), https: try HTTPProxy("secure:1"), exceptions: exceptions)
    #expect(proxies.proxy(isSecure: isSecure, host: host, port: 443)?.authority == authority)
  }
}
