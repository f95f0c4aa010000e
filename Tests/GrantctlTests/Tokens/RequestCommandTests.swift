import ArgumentParser
import BrokerAPI
import Foundation
import Glibc
import Testing

@testable import grantctl

@Suite struct RequestCommandTests {
  static func answered(_ status: Int64, body: String? = nil, base64: String? = nil) -> JSON {
    JSON(
      encoding: RequestSend.Result(
        status: status, headers: ["content-type": "text/plain", "x-odd": "a\u{1B}b"], body: body, body_base64: base64))
  }

  @Test("the body is written to standard output unchanged") func raw() async throws {
    let text = "{\"a\": \"\u{1B}[2J\"}\r\nno newline at the end"
    for (reply, bytes) in [
      (Self.answered(200, body: text), Array(text.utf8)), (Self.answered(204), []),
      (Self.answered(200, base64: "AP/+"), [0, 255, 254]),
    ] {
      try await ScriptedBroker.with(["request.send": answer(reply)]) { broker, _ async throws in
        let recorder = Recorder()
        #expect(try await broker.run(["request", "work", "GET", "/me"], recorder) == .success)
        #expect(recorder.bytes == bytes && recorder.out.isEmpty && recorder.err.isEmpty)
        #expect(broker.params(of: "request.send") == ["account": "work", "method": "GET", "url": "/me"])
      }
    }
  }

  @Test("on a terminal a body cannot control it, and binary data are not shown") func terminal() async throws {
    for (reply, out, err) in [
      (Self.answered(200, body: "a\tb\u{1B}[2J\r\n\nc\n"), "a\tb\\u{1B}[2J\n\nc\n", ""),
      (Self.answered(200, body: "x"), "x\n", ""),
      (
        Self.answered(200, base64: "AP/+"), "",
        "The body is 3 bytes of no text: send them to a file or a program.\n"
      ),
    ] {
      try await ScriptedBroker.with(["request.send": answer(reply)]) { broker, _ async throws in
        let recorder = Recorder()
        let status = try await broker.run(["request", "work", "GET", "/me"], recorder) { $0.isOutTTY = true }
        #expect(status == .success)
        #expect(recorder.out == out && recorder.err == err && recorder.bytes.isEmpty)
      }
    }
  }

  @Test("header fields, a body and the time-out go along") func sent() async throws {
    try await ScriptedBroker.with(["request.send": answer(Self.answered(200))]) { broker, _ async throws in
      let arguments = [
        "request", "work", "POST", "https://api.example.com/x", "--header", "Content-Type: text/plain", "-H",
        "accept:a", "-H", "Accept: b:c", "--data", "-1", "--timeout", "7",
      ]
      #expect(try await broker.run(arguments.map { $0 == "-1" ? "döta" : $0 }, Recorder()) == .success)
      #expect(
        broker.params(of: "request.send") == [
          "account": "work", "method": "POST", "url": "https://api.example.com/x",
          "headers": ["Content-Type": "text/plain", "accept": "a, b:c"], "body": "döta", "timeout": 7,
        ])
    }
  }

  @Test(
    "a body comes from a file or standard input, bytes of no text in base64",
    arguments: ["@/f", "@-", "-", "@/none", "@/binary", "-long"])
  func bodies(data: String) async throws {
    try await ScriptedBroker.with(["request.send": answer(Self.answered(200))]) { broker, _ async throws in
      let recorder = Recorder()
      let arguments = ["request", "work", "PUT", "/x", "--data", data == "-long" ? "-" : data]
      let status = try await broker.run(arguments, recorder) {
        $0.files.bytes = { path, limit in
          #expect(limit == 131_072)
          return path == "/none"
            ? .unreadable("No such file") : .bytes(path == "/binary" ? [255, 0] : Array("file".utf8))
        }
        $0.input = { _ in data == "-long" ? nil : Array("input".utf8) }
      }
      let params = broker.params(of: "request.send")
      switch data {
      case "@/none":
        #expect(status == .usage && params == nil)
        #expect(recorder.err == "grantctl: the body cannot be read from /none: No such file\n")
      case "-long": #expect(status == .usage && recorder.err.contains("longer than 128 KiB"))
      case "@/binary": #expect(params?["body_base64"] == "/wA=" && params?["body"] == nil)
      default: #expect(params?["body"] == (data == "@/f" ? "file" : "input"))
      }
    }
  }

  @Test("the status and the header fields come before the body where they are wanted") func included() async throws {
    try await ScriptedBroker.with(["request.send": answer(Self.answered(302, body: "x"))]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["request", "work", "GET", "/me", "--include"], recorder) == .success)
      #expect(recorder.out == "HTTP 302\ncontent-type: text/plain\nx-odd: a\\u{1B}b\n\n" && recorder.bytes == [0x78])
    }
  }

  @Test("HTTP 400 and higher has its own exit status, with the body", arguments: [399, 400, 404, 500])
  func failed(status: Int64) async throws {
    let reply = Self.answered(status, body: "why")
    try await ScriptedBroker.with(["request.send": answer(reply)]) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      let expected = status < 400 ? ExitStatus.success : .httpError
      #expect(ExitStatus.httpError.rawValue == 22)
      #expect(try await broker.run(["request", "work", "GET", "/me"], plain) == expected)
      #expect(plain.bytes == Array("why".utf8))
      #expect(plain.err == (status < 400 ? "" : "grantctl: the server answered with HTTP \(status)\n"))
      #expect(try await broker.run(["request", "work", "GET", "/me", "--json"], json) == expected)
      #expect(try JSON.parse(Array(json.out.utf8)) == reply && json.err.isEmpty)
    }
  }

  @Test("an invalid header field is a wrong argument", arguments: ["x", ": y", ""])
  func wrong(header: String) {
    #expect(throws: (any Error).self) {
      try Grantctl.parseAsRoot(["request", "work", "GET", "/me", "--header", header])
    }
  }

  @Test("bytes of a file and of a descriptor are read up to a limit") func files() throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("gb-\(UUID().uuidString)").path
    defer { unlink(path) }
    #expect(FileManager.default.createFile(atPath: path, contents: Data([0, 255, 10])))
    chmod(path, 0o644)
    #expect(ProcessFiles.bytes(path, limit: 3) == .bytes([0, 255, 10], isOpenToOthers: true))
    #expect(ProcessFiles.bytes(path, limit: 2) == .unreadable("it is longer than 0 KiB"))
    #expect(ProcessFiles.bytes(path + "x", limit: 2) == .unreadable("No such file or directory"))
  }
}

@Suite struct SessionCommandTests {
  @Test("the user's sessions are a table, and one can be ended") func sessions() async throws {
    let list: JSON = [
      "sessions": [
        LoginActionTests.session("7", current: true), LoginActionTests.session("12", last: "yesterday\u{1B}"),
      ]
    ]
    try await ScriptedBroker.with([
      "account.sessions": answer(list),
      "account.end_session": { params, _ in .success(["ended": .bool(params["session_id"] == "12")]) },
    ]) { broker, _ async throws in
      let (plain, json, ended) = (Recorder(), Recorder(), Recorder())
      #expect(try await broker.run(["sessions", "work", "--timeout", "5"], plain) == .success)
      #expect(broker.params(of: "account.sessions") == ["account": "work", "timeout": 5])
      #expect(
        plain.out == """
          ID  CLIENT  IP          STATE     LAST USED
          7   web     192.0.2.7   this one  -
              Mozilla/5.0 (X11; Linux x86_64)
          12  web     192.0.2.12  offline   yesterday\\u{1B}
              Mozilla/5.0 (X11; Linux x86_64)

          """)
      #expect(try await broker.run(["sessions", "work", "--json"], json) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == list)
      for (id, status) in [("12", ExitStatus.success), ("13", .unknownName)] {
        #expect(try await broker.run(["sessions", "work", "--end", id], ended) == status)
      }
      #expect(ended.out == "Ended: 12\n" && ended.err.contains("the provider has no session 13"))
      #expect(broker.params(of: "account.end_session") == ["account": "work", "session_id": "13"])
    }
    try await ScriptedBroker.with(["account.sessions": answer(["sessions": []])]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["sessions", "work"], recorder) == .success)
      #expect(recorder.out == "No sessions are open.\n")
    }
  }

  @Test("a logout goes as far as is said") func reach() async throws {
    let steps: JSON = [["step": "revoke_session", "result": "done"], ["step": "forget", "result": "done"]]
    try await ScriptedBroker.with(["account.logout": answer(["steps": steps])]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["logout", "paper", "--extent", "EVERYWHERE"], recorder) == .success)
      #expect(broker.params(of: "account.logout") == ["account": "paper", "where": "EVERYWHERE"])
      #expect(recorder.out.hasPrefix("Sign out at the provider  done\n"))
    }
    #expect(throws: (any Error).self) {
      try Grantctl.parseAsRoot(["logout", "paper", "--extent", "JUST_HERE", "--no-revoke"])
    }
  }

  static let session: JSON = [
    "kind": "session", "session_id": "8a7-_~", "cookie": "blaize_session=8a7-_~", "scope": [], "account": "paper",
    "provider": "zephr", "generation": 1,
  ]

  @Test(
    "of a session the id, the cookie or the header field is printed, or all as JSON",
    arguments: [
      ([], "8a7-_~\n"), (["--cookie"], "blaize_session=8a7-_~\n"), (["--as-header"], "Cookie: blaize_session=8a7-_~\n"),
    ] as [([String], String)])
  func session(options: [String], out: String) async throws {
    try await ScriptedBroker.with(["token.get": answer(Self.session)]) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      #expect(try await broker.run(["token", "paper"] + options, plain) == .success)
      #expect(plain.out == out && plain.err.isEmpty)
      #expect(try await broker.run(["token", "paper", "--json"], json) == .success)
      #expect(try JSON.parse(Array(json.out.utf8)) == Self.session)
    }
    #expect(throws: (any Error).self) { try Grantctl.parseAsRoot(["token", "paper", "--cookie", "--as-header"]) }
  }

  @Test("a token has no cookie, and line ends are not printed") func noCookie() async throws {
    var broken = Self.session.members ?? []
    broken[2].value = "a=b\nX: y"
    for (reply, options) in [(CommandTests.token, ["--cookie"]), (.object(broken), ["--cookie"])] {
      try await ScriptedBroker.with(["token.get": answer(reply)]) { broker, _ async throws in
        let recorder = Recorder()
        #expect(try await broker.run(["token", "work"] + options, recorder) == .failure)
        #expect(recorder.out.isEmpty && !recorder.err.contains("ya29"))
      }
    }
  }
}
