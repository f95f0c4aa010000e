import BrokerAPI
import Foundation
import Grants
import OAuth
import TestSupport
import Testing

@testable import Broker

/// Calls that the broker makes for others.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct RequestTests {
  private func rig() async throws -> Rig {
    let provider = SteppedProvider {
      $0.apiTraits = APITraits(
        base: URL(string: "https://api.example/v1/")!, origins: [URL(string: "https://files.example/")!])
    }
    let rig = try await Rig(configuration: .plain([provider]))
    _ = await rig.callBack(try await rig.start(), ["state": nil])
    rig.transport.answer(.resource) { _ in
      HTTPResponse(
        status: 200,
        headers: [
          .init("Content-Type", "text/plain"), .init("Set-Cookie", "a=b"), .init("X", "1"),
          .init("x", "2"),
        ], body: Data("hello".utf8))
    }
    return rig
  }

  private func send(_ rig: Rig, _ change: (inout RequestSend.Params) -> Void = { _ in }) async throws
    -> RequestSend.Result
  {
    var params = RequestSend.Params(account: "work", method: "GET", url: "/me")
    change(&params)
    return try await rig.call(RequestSend.self, params)
  }

  @Test("The token goes along, and the answer comes back whole, without the provider's cookies")
  func sent() async throws {
    let rig = try await rig()
    let result = try await send(rig) {
      $0.method = "POST"
      $0.headers = ["Accept": "text/plain"]
      $0.body = "question"
    }
    #expect(result.status == 200 && result.body == "hello" && result.body_base64 == nil)
    #expect(result.headers == ["content-type": "text/plain", "x": "1, 2"])
    let request = try #require(rig.transport.requests(.resource).first)
    #expect(request.url.absoluteString == "https://api.example/v1/me" && request.method == "POST")
    #expect(request.headers.contains(.init("Authorization", "Bearer work-a1")))
    #expect(request.headers.contains(.init("Accept", "text/plain")) && request.body == Data("question".utf8))
  }

  @Test("A 401 is answered by one refresh and one more call; a second one is the caller's")
  func refused() async throws {
    let rig = try await rig()
    rig.transport.answer(.resource) { request in
      HTTPResponse(status: request.headers.contains(.init("Authorization", "Bearer work-a1")) ? 401 : 204)
    }
    #expect(try await send(rig).status == 204)
    #expect(rig.transport.count(.resource) == 2 && rig.transport.count(.token) == 2)
    rig.transport.answer(.resource) { _ in HTTPResponse(status: 401) }
    #expect(await rig.reason { try await send(rig) } == .providerError)
    #expect(rig.transport.count(.resource) == 4 && rig.transport.count(.token) == 3)
  }

  @Test(
    "The token is sent only to the provider's own servers, for every form of URL",
    arguments: [
      "https://evil.example/v1/me", "https://api.example.evil.example/", "https://api.example@evil.example/",
      "http://api.example/v1/me", "https://api.example:8443/me", "//evil.example/me#", "me", "", "file:///etc/passwd",
      "https://api.example\\@evil.example/", "https://evil.example\u{0}.api.example/", "/me\r\nHost: evil.example",
      "https://[::1]/me", "https:api.example/me",
    ])
  func elsewhere(_ url: String) async throws {
    let rig = try await rig()
    let error = await #expect(throws: RPCError.self) { _ = try await send(rig) { $0.url = url } }
    #expect(error?.code == -32602)
    #expect(rig.transport.count(.resource) == 0)
  }

  @Test("A path cannot leave the base's server, and a named origin is as good")
  func within() async throws {
    let rig = try await rig()
    for (url, sent) in [
      ("//evil.example/me", "https://api.example/v1//evil.example/me"),
      ("/@evil.example", "https://api.example/v1/@evil.example"),
      ("https://FILES.example/a?b=c", "https://FILES.example/a?b=c"),
      ("https://api.example:443/", "https://api.example:443/"),
    ] {
      _ = try await send(rig) { $0.url = url }
      #expect(rig.transport.requests(.resource).last?.url.absoluteString == sent)
    }
  }

  @Test("a path that a server could read as another one is not sent", arguments: ["", "?x=1"])
  func ambiguousPaths(_ query: String) async throws {
    let rig = try await rig()
    let before = rig.transport.requests.count
    for path in RequestPaths.ambiguous {
      for url in [path, "https://files.example" + path] {
        let error = await #expect(throws: RPCError.self) { _ = try await send(rig) { $0.url = url + query } }
        #expect(error?.code == -32602, "\(url)")
      }
    }
    #expect(rig.transport.requests.count == before)
    let error = await #expect(throws: RPCError.self) { _ = try await send(rig) { $0.url = "/a/../b" + query } }
    #expect(error?.message.hasSuffix(PlainPath.refusal) == true && error?.hint == PlainPath.hint)
  }

  @Test("another path is sent unchanged, if a URL can have it")
  func paths() async throws {
    let rig = try await rig()
    for path in RequestPaths.emptySteps + RequestPaths.verbatim {
      _ = try await send(rig) { $0.url = path + "?x=/../y" }
      let sent = try #require(rig.transport.requests(.resource).last)
      #expect(sent.url.absoluteString == "https://api.example/v1\(path)?x=/../y")
    }
    for path in RequestPaths.plain {
      let before = rig.transport.count(.resource)
      do {
        _ = try await send(rig) { $0.url = path }
        #expect(rig.transport.requests(.resource).last?.url.absoluteString == "https://api.example/v1\(path)")
      } catch {
        #expect((error as? RPCError)?.message.contains("expected an address") == true, "\(path)")
        #expect(rig.transport.count(.resource) == before)
      }
    }
  }

  @Test("a caller cannot set headers of the broker or of the connection")
  func headers() async throws {
    let rig = try await rig()
    for name in (RequestHeaders.refused + ["User-Agent"]).flatMap(RequestHeaders.spellings) + ["a b", "", "x:"] {
      let error = await #expect(throws: RPCError.self) { _ = try await send(rig) { $0.headers = [name: "x"] } }
      #expect(error?.code == -32602, "\(name)")
    }
    await #expect(throws: RPCError.self) { _ = try await send(rig) { $0.headers = ["X": "a\r\nb: c"] } }
    for method in ["GET /", "GET /Host", "", "GET\r\nHost:"] {
      await #expect(throws: RPCError.self) { _ = try await send(rig) { $0.method = method } }
    }
    #expect(rig.transport.count(.resource) == 0)
  }

  @Test("other headers are sent unchanged")
  func otherHeaders() async throws {
    let rig = try await rig()
    let headers = Dictionary(uniqueKeysWithValues: RequestHeaders.allowed.map { ($0, "own") })
    _ = try await send(rig) { $0.headers = headers }
    let sent = try #require(rig.transport.requests(.resource).last)
    for name in RequestHeaders.allowed { #expect(sent.headers.contains(.init(name, "own")), "\(name)") }
  }

  @Test("Bodies are bytes, one at a time, and bounded both ways")
  func bodies() async throws {
    let rig = try await rig()
    rig.transport.answer(.resource) { request in HTTPResponse(status: 200, body: request.body ?? Data()) }
    let bytes = Data([0xFF, 0x00, 0xFE])
    let result = try await send(rig) { $0.body_base64 = bytes.base64EncodedString() }
    #expect(result.body == nil && result.body_base64 == bytes.base64EncodedString())
    for change in [
      { (params: inout RequestSend.Params) in
        params.body = "a"
        params.body_base64 = "YQ=="
      }, { $0.body_base64 = "%" }, { $0.body = String(repeating: "a", count: Limit.requestBody + 1) },
    ] {
      await #expect(throws: RPCError.self) { _ = try await send(rig, change) }
    }
    rig.transport.answer(.resource) { _ in HTTPResponse(status: 200, body: Data(count: Limit.responseBody + 1)) }
    #expect(await rig.reason { try await send(rig) } == .providerError)
    // Each of these bytes takes six in JSON.
    rig.transport.answer(.resource) { _ in HTTPResponse(status: 200, body: Data(repeating: 1, count: 100_000)) }
    #expect(await rig.reason { try await send(rig) } == .providerError)
  }

  @Test("A provider without addresses for calls says what to set")
  func nowhere() async throws {
    let rig = try await Rig(configuration: .plain([SteppedProvider()]))
    _ = await rig.callBack(try await rig.start(), ["state": nil])
    let error = await #expect(throws: RPCError.self) { _ = try await send(rig) }
    #expect(error?.reason == .unsupportedByProvider && error?.hint?.contains("api_base") == true)
  }

  @Test(
    "An answer that repeats the token is not returned",
    arguments: [
      (200, "Content-Encoding", "gzip"), (200, "content-encoding", "identity, br"),
      (206, "Content-Range", "bytes 7-9/20"),
      (200, "Content-Type", "multipart/byteranges; boundary=a"), (200, "Content-Type", "text/plain; charset=UTF-16LE"),
    ])
  func unsearchable(_ status: Int, _ name: String, _ value: String) async throws {
    let rig = try await rig()
    rig.transport.answer(.resource) { _ in
      HTTPResponse(status: status, headers: [.init(name, value)], body: Data("hello".utf8))
    }
    #expect(await rig.reason { try await send(rig) } == .providerError)
    rig.transport.answer(.resource) { _ in
      HTTPResponse(status: 200, headers: [.init("Content-Encoding", "Identity")], body: Data("hello".utf8))
    }
    #expect(try await send(rig).body == "hello")
    #expect(
      rig.transport.requests(.resource).allSatisfy { $0.headers.contains(.init("Accept-Encoding", "identity")) })
  }

  @Test("Repetitions of the token are not returned, and a method whose answer repeats the request is not sent")
  func echoes() async throws {
    let rig = try await rig()
    rig.transport.answer(.resource) { request in
      let said = request.headers.first { $0.name == "Authorization" }?.value ?? ""
      return HTTPResponse(status: 200, headers: [.init("X-Said", said)], body: Data("you said \(said)".utf8))
    }
    // The standard token of this provider is shorter than what is looked for.
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"a-long-access-token","token_type":"Bearer","expires_in":3600,"refresh_token":"r"}"#)
    }
    _ = try await rig.call(AccountRefresh.self, .init(account: "work"))
    let result = try await send(rig)
    #expect(result.body == "you said Bearer (redacted)" && result.headers["x-said"] == "Bearer (redacted)")
    let sent = rig.transport.count(.resource)
    for method in ["TRACE", "trace", "CONNECT"] {
      await #expect(throws: RPCError.self) { _ = try await send(rig) { $0.method = method } }
    }
    #expect(rig.transport.count(.resource) == sent)
  }
}
