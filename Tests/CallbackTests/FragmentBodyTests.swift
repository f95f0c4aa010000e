import Broker
import Callback
import NIOCore
import Testing

/// What a fragment's length may be, and how long it may take.
@Suite struct FragmentBodyTests {
  static let longest = 16 * 1024

  static func chunked(_ fragment: String, size: Int, port: Int) -> String {
    let head = [
      "Host: 127.0.0.1:\(port)", "Origin: http://127.0.0.1:\(port)", RawClient.formType, "Transfer-Encoding: chunked",
    ]
    let bytes = Array(fragment.utf8)
    let chunks = stride(from: 0, to: bytes.count, by: size).map { start in
      let chunk = bytes[start..<min(start + size, bytes.count)]
      return "\(String(chunk.count, radix: 16))\r\n\(String(decoding: chunk, as: UTF8.self))\r\n"
    }
    return RawClient.fragmentRequest("", port: port, headers: head) + chunks.joined() + "0\r\n\r\n"
  }

  @Test(
    "A fragment has 16 KiB",
    arguments: [(longest, 200), (longest + 1, 413), (60_000, 413), (500_000, 413)], [0, 4096])
  func size(_ size: (length: Int, status: Int), chunk: Int) async throws {
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(handler: handler) { _, client async throws in
      let fragment = String(repeating: "a", count: size.length)
      let response =
        try await chunk == 0
        ? client.bring(fragment) : client.send(Self.chunked(fragment, size: chunk, port: client.port))
      // A huge body is cut while it is sent, which may take the page away.
      #expect(response.status == size.status || (size.length > 100_000 && response.raw.isEmpty))
      #expect(handler.urls.count == (size.status == 200 ? 1 : 0))
      #expect(response.raw.isEmpty || response.body.hasPrefix("<!DOCTYPE html>"))
      #expect(try await client.bring("a=b").status == 200)
    }
  }

  @Test("A body that does not end in time is answered 408")
  func slow() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = LimitTests.quick
    let handler = ScriptedHandler(awaitsFragments: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      let whole = RawClient.fragmentRequest("access_token=secret", port: client.port)
      let response = try await client.sendInTime(String(whole.dropLast(3)))
      #expect(response.status == 408)
      #expect(response.body.hasPrefix("<!DOCTYPE html>") && !response.raw.contains("secret"))
      #expect(handler.urls.isEmpty)
    }
  }

  @Test("A request takes a handler's slot, and is answered at the deadline without cancelling the handler")
  func handlers() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.handlers = 1
    configuration.handlerDeadline = .milliseconds(100)
    let handler = ScriptedHandler(holds: true, awaitsFragments: true)
    try await withListener(configuration, handler: handler) { _, client async throws in
      #expect(try await client.bring("n=1").status == 504)
      // The deadline may pass before its task runs.
      await handler.asked(1)
      #expect(try await client.bring("n=2").status == 503)
      // The page itself needs a place too.
      #expect(try await client.request("GET", "/callback").status == 503)
      handler.letGo()
      #expect(!handler.wasCancelled)
      #expect(handler.urls.count == 1)
    }
  }
}
