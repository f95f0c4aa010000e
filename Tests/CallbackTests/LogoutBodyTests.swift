import Callback
import Foundation
import NIOCore
import Testing

/// What a logout request's body may be, and how long it may take.
@Suite struct LogoutBodyTests {
  /// Bytes of a form that is just taken.
  static let longest = 128 * 1024

  /// Only ASCII.
  static func chunked(_ form: String, size: Int) -> String {
    let form = Array(form.utf8)
    let head = "POST /backchannel-logout/demo HTTP/1.1\r\nHost: a\r\n\(RawClient.formType)\r\n"
    var bytes = Array((head + "Transfer-Encoding: chunked\r\n\r\n").utf8)
    for start in stride(from: 0, to: form.count, by: size) {
      let chunk = form[start..<min(start + size, form.count)]
      bytes += Array((String(chunk.count, radix: 16) + "\r\n").utf8) + chunk + Array("\r\n".utf8)
    }
    return String(decoding: bytes + Array("0\r\n\r\n".utf8), as: UTF8.self)
  }

  struct Size: Sendable, CustomTestStringConvertible {
    var name: String
    var text: String
    var status: Int

    var testDescription: String { name }
  }

  static func form(_ length: Int) -> String { String(repeating: "a", count: length) }

  static func announced(_ length: String) -> String {
    "POST /backchannel-logout/demo HTTP/1.1\r\nHost: a\r\n\(RawClient.formType)\r\nContent-Length: \(length)\r\n\r\na"
  }

  static let sizes: [Size] = [
    Size(name: "a form that just fits", text: RawClient.logoutRequest(form(longest)), status: 200),
    Size(name: "a form that is one too long", text: RawClient.logoutRequest(form(longest + 1)), status: 413),
    Size(name: "a form that is much too long", text: RawClient.logoutRequest(form(900_000)), status: 413),
    Size(name: "a form that is announced as too long", text: announced("10000000000"), status: 413),
    Size(name: "chunks that just fit", text: chunked(form(longest), size: 4096), status: 200),
    Size(name: "chunks that are one too long", text: chunked(form(longest + 1), size: 4096), status: 413),
    Size(name: "chunks that are much too long", text: chunked(form(600_000), size: 4096), status: 413),
  ]

  @Test("A form has 128 KiB", arguments: sizes)
  func size(_ test: Size) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.send(test.text)
      #expect(response.status == test.status)
      if test.status != 200 { try expectRefusal(response, test.status) }
      #expect(handler.logouts.count == (test.status == 200 ? 1 : 0))
      #expect(try await client.logOut().status == 200)
    }
  }

  @Test("A form that is refused can be sent to its end where it has less than 1 MiB")
  func refusedForm() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.linger = .seconds(60)
    try await withListener(configuration) { _, client async throws in
      let connection = try await client.open(staysOpen: true)
      try await connection.write(Self.announced("900000"))
      try expectRefusal(try await connection.response(), 413)
      // If the server closes the connection, one of the parts cannot be written.
      for _ in 0..<100 { try await connection.write(Self.form(8000)) }
      await connection.close()
    }
  }

  @Test(
    "The frames of chunks may be as long as a form, including the part after the head",
    arguments: [
      (2000, 200), (19_000, 413),
    ])
  func frames(length: Int, status: Int) async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits.form = 20_000
    let handler = ScriptedHandler()
    try await withListener(configuration, handler: handler) { _, client async throws in
      let response = try await client.send(Self.chunked(Self.form(length), size: 1))
      #expect(response.status == status)
      #expect(handler.logouts.count == (status == 200 ? 1 : 0))
    }
  }

  @Test("A body without end is cut")
  func endless() async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.send(Self.chunked(Self.form(4_000_000), size: 65_536))
      // It is cut while it is sent, which may take the answer away.
      #expect(response.status == 413 || response.raw.isEmpty)
      #expect(handler.logouts.isEmpty)
      #expect(try await client.logOut().status == 200)
    }
  }

  @Test(
    "A body that does not end in time is answered 408",
    arguments: [
      "POST /backchannel-logout/demo HTTP/1.1\r\nHost: a", announced("9"),
      "POST /backchannel-logout/demo HTTP/1.1\r\nHost: a\r\n\(RawClient.formType)\r\nContent-Length: 1\r\n\r\n",
      "POST /backchannel-logout/demo HTTP/1.1\r\nHost: a\r\n\(RawClient.formType)\r\nTransfer-Encoding: chunked\r\n\r\n"
        + "1\r\na\r\n",
    ])
  func slow(text: String) async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = LimitTests.quick
    let handler = ScriptedHandler()
    try await withListener(configuration, handler: handler) { _, client async throws in
      try expectRefusal(try await client.sendInTime(text), 408)
      #expect(handler.logouts.isEmpty)
    }
  }

  @Test("A byte of the body now and then does not put the end off")
  func drip() async throws {
    var configuration = CallbackListener.Configuration()
    configuration.limits = LimitTests.quick
    let handler = ScriptedHandler()
    try await withListener(configuration, handler: handler) { _, client async throws in
      // All of it would take half an hour, which no answer is awaited for.
      let response = try await client.drip(Self.announced("100000"), piece: "a", every: .milliseconds(20))
      try expectRefusal(response, 408)
      #expect(handler.logouts.isEmpty)
    }
  }

  @Test("A late body within its time is accepted; a client that asks before sending it is answered")
  func expectation() async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let connection = try await client.open()
      let request = RawClient.logoutRequest("a=b", headers: ["Expect: 100-continue"])
      try await connection.write(String(request.dropLast(3)))
      try await connection.received("\r\n\r\n")
      #expect(handler.logouts.isEmpty)
      try await connection.write("a=b")
      let response = try await connection.response()
      #expect(response.raw.hasPrefix("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"))
      #expect(handler.logouts == [.init(provider: "demo", form: "a=b")])
    }
  }

  @Test("A form that is refused by its head is not asked for")
  func refusedExpectation() async throws {
    try await withListener { _, client async throws in
      let lines = ["POST /backchannel-logout/ HTTP/1.1", "Host: a", "Content-Length: 3", "Expect: 100-continue"]
      let response = try await client.send(lines.joined(separator: "\r\n") + "\r\n\r\n")
      try expectRefusal(response, 404)
    }
  }

  @Test("A client that ends its side after the form gets its answer")
  func halfClosed() async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let whole = try await client.send(RawClient.logoutRequest(), endOutput: true)
      #expect(whole.status == 200)
      let chunked = try await client.send(Self.chunked("a=b", size: 2), endOutput: true)
      #expect(chunked.status == 200)
      #expect(handler.logouts.count == 2)
    }
  }

  @Test(
    "A client that ends its side within the form hands nothing over",
    arguments: [
      announced("2"), String(chunked("a=b", size: 2).dropLast(2)), String(chunked("a=b", size: 2).dropLast(5)),
    ])
  func cutShort(text: String) async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let response = try await client.send(text, endOutput: true)
      #expect(response.raw.isEmpty || response.status == 400)
      if !response.raw.isEmpty { try expectRefusal(response, 400) }
      #expect(try await client.logOut().status == 200)
      #expect(handler.logouts.count == 1)
    }
  }

  @Test("Only the first request of a connection is looked at, and keeping it open is not offered")
  func pipelined() async throws {
    let handler = ScriptedHandler()
    try await withListener(handler: handler) { _, client async throws in
      let one = RawClient.logoutRequest("a=b", headers: ["Connection: keep-alive"])
      let response = try await client.send(one + one)
      #expect(response.status == 200 && response.headers["connection"] == "close")
      #expect(response.raw.components(separatedBy: "HTTP/1.1 ").count == 2)
      #expect(handler.logouts == [.init(provider: "demo", form: "a=b")])
    }
  }
}
