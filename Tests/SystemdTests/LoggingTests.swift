import Dispatch
import Glibc
import Logging
import TestSupport
import Testing

@testable import Systemd

@Suite struct LoggingTests {
  @Test(
    "JOURNAL_STREAM is two decimal numbers",
    arguments: [
      ("9:1234", true), ("0:18446744073709551615", true), ("", false), (":", false), ("9", false), ("9:", false),
      ("9:12:3", false), ("a:1", false), ("-1:2", false), ("9: 1", false),
    ])
  func journalStream(text: String, valid: Bool) {
    #expect((JournalStream(text) != nil) == valid)
  }

  @Test("A descriptor matches the stream that names its device and inode")
  func journalStreamMatch() throws {
    var file = stat()
    try #require(stat("/dev/null", &file) == 0)
    let descriptor = open("/dev/null", O_WRONLY)
    defer { close(descriptor) }
    #expect(JournalStream("\(file.st_dev):\(file.st_ino)") == JournalStream(descriptor: descriptor))
    #expect(JournalStream("\(file.st_dev):\(file.st_ino + 1)") != JournalStream(descriptor: descriptor))
    #expect(JournalStream(descriptor: 9999) == nil)
  }

  @Test(
    "A console line bears the message and the metadata in key order, escaped and bounded",
    arguments: [
      ("started", [:], "started"),
      ("a\nb", [:], "a\\nb"),
      ("\u{1B}[31mred", [:], "\\u{1b}[31mred"),
      ("x", ["b": "2", "a": "1"], "x a=1 b=2"),
      ("x", ["k": "two words"], "x k=\"two words\""),
      ("x", ["k": ""], "x k=\"\""),
      ("x", ["k": "say \"hi\"\\"], "x k=\"say \\\"hi\\\"\\\\\""),
      ("x", ["k": "a\r\nlevel=error"], "x k=\"a\\r\\nlevel=error\""),
      ("x", ["k": "\u{202E}evil\u{2028}"], "x k=\"\\u{202e}evil\\u{2028}\""),
      ("x", ["k": "größe"], "x k=größe"),
      ("x", ["k": .string(String(repeating: "y", count: 600))], "x k=\(String(repeating: "y", count: 512))…"),
    ] as [(String, Logger.Metadata, String)])
  func consoleLine(message: String, metadata: Logger.Metadata, expected: String) {
    let lines = Sent<String>()
    var logger = Logger(label: "t") { _ in
      ConsoleLogHandler(now: { .milliseconds(1_700_000_000_042) }, write: { lines.append($0) })
    }
    logger.logLevel = .debug
    logger.info("\(message)", metadata: metadata)
    logger.trace("not shown")
    #expect(lines.all == ["2023-11-14T22:13:20.042Z info     \(expected)\n"])
  }

  @Test("A stopped reader delays no caller; lines above the limit are dropped, and counted in the next one")
  func queue() {
    let (queue, written, gate) = (LogQueue(), Sent<UInt64>(), DispatchSemaphore(value: 0))
    // On a busy machine it may begin when the others have been dropped already.
    let first = Sent<UInt64>()
    queue.add {
      first.append($0)
      gate.wait()
    }
    for _ in 0..<LogQueue.most + 9 { queue.add { written.append($0) } }
    queue.flush(within: .milliseconds(10))
    #expect(written.all.isEmpty)
    gate.signal()
    queue.flush(within: .seconds(20))
    #expect(written.all.count == LogQueue.most - 1)
    queue.add { written.append($0) }
    queue.flush(within: .seconds(20))
    #expect((first.all + written.all).reduce(0, +) == 10)
  }

  @Test("A journal entry has the journal's own fields and one per metadata key")
  func journalEntry() {
    let entries = Sent<[[UInt8]]>()
    var logger = Logger(label: "t") { _ in JournalLogHandler(identifier: "grantd", send: { entries.append($0) }) }
    logger[metadataKey: "account"] = "work"
    logger.warning(
      "line 1\nline 2",
      metadata: ["message_id": "0123", "retry-in": "5", "account": "home"], file: "F.swift", function: "f()", line: 7)
    let fields = entries.all.first.map { $0.map { String(decoding: $0, as: UTF8.self) } }
    #expect(
      fields == [
        "MESSAGE=line 1\nline 2", "PRIORITY=4", "SYSLOG_IDENTIFIER=grantd", "CODE_FILE=F.swift", "CODE_LINE=7",
        "CODE_FUNC=f()", "GRANTD_ACCOUNT=home", "MESSAGE_ID=0123", "GRANTD_RETRY_IN=5",
      ])
  }

  @Test("A journal entry cannot control a terminal or reverse a line; line feeds and tabs stay")
  func journalEscapes() {
    let entries = Sent<[[UInt8]]>()
    let logger = Logger(label: "t") { _ in JournalLogHandler(identifier: "grantd", send: { entries.append($0) }) }
    logger.info("a\u{1B}[31m\n\tb\r\u{202E}größe", metadata: ["unit": "x\u{1B}\u{2028}.service"])
    let fields = entries.all.first.map { $0.map { String(decoding: $0, as: UTF8.self) } }
    #expect(fields?.first == "MESSAGE=a\\u{1b}[31m\n\tb\\r\\u{202e}größe")
    #expect(fields?.last == "GRANTD_UNIT=x\\u{1b}\\u{2028}.service")
  }

  @Test("unsafe characters are escaped, and the others stay")
  func unsafeCharacters() {
    for scalar in UnsafeCharacters.all {
      let text = "a" + String(scalar) + "b"
      var found = [LogText.escaped(text, limit: 40), LogText.value(text, limit: 40)]
      if scalar != "\n", scalar != "\t" { found.append(LogText.lines(text)) }
      for line in found {
        #expect(line.utf8.allSatisfy { (0x20..<0x7F).contains($0) } && line.contains("a\\"), "\(scalar.value)")
      }
    }
    for scalar in UnsafeCharacters.safe {
      let text = "a" + String(scalar) + "b"
      for line in [LogText.escaped(text, limit: 40), LogText.lines(text)] {
        #expect(line.unicodeScalars.elementsEqual(text.unicodeScalars), "\(scalar.value)")
      }
    }
  }

  @Test("An error given with an event is a field like any other")
  func errorField() {
    struct Broken: Error {}
    let entries = Sent<[[UInt8]]>()
    let handler = JournalLogHandler(identifier: "grantd", send: { entries.append($0) })
    let event = LogEvent(
      level: .error, message: "failed", error: Broken(), metadata: nil, source: nil, file: "F", function: "f", line: 1)
    handler.log(event: event)
    #expect(entries.all.first?.contains(Array("GRANTD_ERROR=Broken()".utf8)) == true)
  }

  @Test("A journal field's name and value stay within the journal's limits")
  func journalLimits() {
    let entries = Sent<[[UInt8]]>()
    let logger = Logger(label: "t") { _ in JournalLogHandler(identifier: "grantd", send: { entries.append($0) }) }
    let many = Dictionary(uniqueKeysWithValues: (0..<100).map { ("k\($0)", Logger.MetadataValue.string("v")) })
    logger.info("m", metadata: many)
    #expect(entries.all[0].count == 6 + JournalLogHandler.fieldLimit)
    logger.info("\(String(repeating: "x", count: 100_000))")
    #expect(entries.all[1][0].count == "MESSAGE=".count + JournalLogHandler.valueLimit)
    #expect(JournalLogHandler.name(String(repeating: "k", count: 200)).count == 64)
  }

  @Test(
    "Levels are syslog's",
    arguments: zip(Logger.Level.allCases, [7, 7, 6, 5, 4, 3, 2] as [Int32]))
  func priorities(level: Logger.Level, expected: Int32) {
    #expect(JournalLogHandler.priority(level) == expected)
  }

  @Test(
    "Cutting never splits an escape or a character", arguments: [(4, "abé…"), (3, "ab…"), (5, "abé…"), (6, "abé\\n")])
  func cutting(limit: Int, expected: String) {
    #expect(LogText.escaped("abé\n", limit: limit) == expected)
  }
}
