import Glibc
import JSON
import TestSupport
import Testing

@Suite("JSON (RFC 8259)")
struct JSONTests {
  @Test(
    "a valid text parses and is written again without white space",
    arguments: [
      ("null", "null"), (" true\r\n", "true"), ("\t[ ]", "[]"), ("{ }", "{}"), ("-0", "-0"), ("0.10", "0.10"),
      ("1E+400", "1E+400"), ("123456789012345678901234567890", "123456789012345678901234567890"),
      ("[1 , 2,[3]]", "[1,2,[3]]"), (#"{"b":1, "a" :2}"#, #"{"b":1,"a":2}"#),
      (#""\u0041\u00e9\/""#, "\"Aé/\""), (#""\uD83D\uDE00""#, "\"😀\""), ("\"😀\u{7F}\"", "\"😀\u{7F}\""),
      (#""\u0000\b\n\"\\""#, #""\u0000\u0008\n\"\\""#), (#"{"":{"":null}}"#, #"{"":{"":null}}"#),
      ("{\"e\u{301}\":1,\"\u{E9}\":2}", "{\"e\u{301}\":1,\"\u{E9}\":2}"),
    ])
  func valid(text: String, written: String) throws {
    #expect(String(decoding: try JSON.parse(text.utf8).serialized(), as: UTF8.self) == written)
  }

  @Test(
    "anything else is refused at its byte",
    arguments: [
      ("", 0), (" ", 1), ("nul", 0), ("NaN", 0), ("+1", 0), ("01", 1), ("1.", 2), (".5", 0), ("1e", 2), ("-", 1),
      ("1 2", 2), ("[1,]", 3), ("[1 2]", 3), ("[", 1), ("]", 0), ("{", 1), (#"{"a"}"#, 4), (#"{"a":}"#, 5),
      (#"{"a":1,}"#, 7), ("{a:1}", 1), (#"{"a":1,"a":2}"#, 7), (#"{"a":1,"\u0061":2}"#, 7), ("'a'", 0), (#"""#, 1),
      (#""\x""#, 2), (#""\u12g4""#, 5), (#""\uD800""#, 1), (#""\uDC00""#, 1), (#""\uD800\u0041""#, 1),
      (#""\uD800\uE000""#, 1),
      (#""\uD800x""#, 1), ("\"a\nb\"", 2), ("\"a\u{0}\"", 2), ("\u{0}", 0), ("1\u{0}", 1), ("\u{FEFF}1", 0),
      ("/**/1", 0), ("1\u{A0}", 1),
    ])
  func invalid(text: String, offset: Int) {
    let error = #expect(throws: JSONError.self) { try JSON.parse(text.utf8) }
    #expect(error?.offset == offset, "\(String(describing: error))")
  }

  @Test("a name that an object has already is refused, in small and large objects", arguments: [1, 15, 16, 17, 40])
  func namesOfLargeObjects(count: Int) throws {
    let members = (0..<count).map { "\"m\($0)\":0" }.joined(separator: ",")
    _ = try JSON.parse("{\(members)}".utf8)
    for again in [0, count - 1] {
      let error = #expect(throws: JSONError.self) { try JSON.parse("{\(members),\"m\(again)\":1}".utf8) }
      #expect(error == JSONError("the same member twice", at: members.utf8.count + 2))
    }
  }

  @Test(
    "bytes that are no UTF-8 are refused",
    arguments: [
      [0x22, 0x80, 0x22], [0x22, 0xC0, 0xAF, 0x22], [0x22, 0xE0, 0x80, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22],
      [0x22, 0xF4, 0x90, 0x80, 0x80, 0x22], [0x22, 0xF0, 0x80, 0x80, 0x80, 0x22], [0x22, 0xFF, 0x22], [0x22, 0xC3],
      [0x22, 0xE2, 0x82, 0x22, 0x22],
    ] as [[UInt8]])
  func invalidUTF8(bytes: [UInt8]) {
    let error = #expect(throws: JSONError.self) { try JSON.parse(bytes) }
    #expect(error == JSONError("invalid UTF-8", at: 1))
  }

  @Test("64 levels are read and 65 refused, at every depth")
  func depth() throws {
    func nested(_ depth: Int) -> [UInt8] {
      Array(String(repeating: "[", count: depth).utf8) + Array(String(repeating: "]", count: depth).utf8)
    }
    _ = try JSON.parse(nested(64))
    #expect(throws: JSONError("nested deeper than 64 levels", at: 64)) { try JSON.parse(nested(65)) }
    #expect(throws: JSONError("nested deeper than 64 levels", at: 64)) { try JSON.parse(nested(100_000)) }
  }

  @Test("any collection of bytes is read: arrays, raw buffers, and non-contiguous ones")
  func collections() throws {
    let bytes = Array("[1]".utf8)
    #expect(try JSON.parse(bytes) == [1])
    #expect(try bytes.withUnsafeBytes { try JSON.parse($0) } == [1])
    #expect(try JSON.parse(bytes.lazy.map { $0 }) == [1])
    #expect(try JSON.parse(bytes[1..<2]) == 1)
  }

  @Test("random bytes and cut texts never trap")
  func garbage() {
    var random = SeededGenerator(seed: 7)
    let text = Array(#"{"a":[1.5e3,"\uD83D\uDE00é",null,true],"b":{"c":-0}}"#.utf8)
    for _ in 0..<20_000 {
      var bytes = Array(text.prefix(Int.random(in: 0...text.count, using: &random)))
      for _ in 0..<Int.random(in: 0...3, using: &random) where !bytes.isEmpty {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
      }
      if let json = try? JSON.parse(bytes) {
        #expect((try? JSON.parse(json.serialized())) == json)
        #expect(!json.serialized().contains(0x0A))
      }
    }
  }

  @Test("each option changes one rule, and no other")
  func options() {
    func options(_ change: (inout JSON.Options) -> Void) -> JSON.Options {
      var options = JSON.Options()
      change(&options)
      return options
    }
    let rows: [(String, [UInt8], JSON.Options, JSON)] = [
      ("mark", Array("\u{FEFF}1".utf8), options { $0.takesMark = true }, 1),
      ("last", Array(#"{"a":1,"b":2,"a":3}"#.utf8), options { $0.repeated = .last }, ["a": 3, "b": 2]),
      ("surrogate", Array(#""\uD800x\uDC00""#.utf8), options { $0.repairsText = true }, "\u{FFFD}x\u{FFFD}"),
      ("pair", Array(#""\uD800\u0041""#.utf8), options { $0.repairsText = true }, "\u{FFFD}A"),
      ("bytes", [0x22, 0xFF, 0x22], options { $0.repairsText = true }, "\u{FFFD}"),
    ]
    for (name, text, option, value) in rows {
      #expect(throws: JSONError.self, "\(name)") { try JSON.parse(text) }
      for (other, _, further, _) in rows {
        let taken = try? JSON.parse(text, further)
        #expect((taken == value) == (further == option), "\(name) by \(other)")
      }
    }
  }

  @Test("each limit is exact, and named where it is exceeded")
  func limits() {
    var options = JSON.Options()
    options.bytes = 9
    options.depth = 2
    options.values = 4
    options.elements = 2
    let rows: [(String, JSON.Bound?)] = [
      ("[1,2,3]", .elements), ("[1,[2,3]]", .values), ("[1,     2]", .bytes), ("[[[]]]", nil),
    ]
    for (text, bound) in rows {
      let error = #expect(throws: JSONError.self, "\(text)") { try JSON.parse(text.utf8, options) }
      #expect(error?.exceeded == bound, "\(text): \(String(describing: error))")
    }
    for text in ["[1,2]", "[[2,3]]", "[1,    2]", "[[]]"] {
      #expect(throws: Never.self, "\(text)") { try JSON.parse(text.utf8, options) }
    }
  }

  @Test("names are compared by bytes, or as Unicode does; many as few")
  func names() throws {
    var byUnicode = JSON.Options()
    byUnicode.repeated = .refused
    for count in [0, 1, 7, 8, 9, 40] {
      let others = (0..<count).map { "\"n\($0)\":0," }.joined()
      let alike = "{\(others)\"e\u{301}\":1,\"\u{E9}\":2}"
      #expect(try JSON.parse(alike.utf8).members?.count == count + 2)
      #expect(throws: JSONError.self) { try JSON.parse(alike.utf8, byUnicode) }
      let same = "{\(others)\"a\":1,\"a\":2}"
      for options in [JSON.Options(), byUnicode] {
        #expect(throws: JSONError.self, "\(count)") { try JSON.parse(same.utf8, options) }
      }
      byUnicode.repeated = .last
      let reading = JSON.read(same.utf8, byUnicode)
      #expect(try reading.outcome.get()["a"] == 2 && reading.repeated == ["a"])
      byUnicode.repeated = .refused
    }
  }

  @Test("a repeated name costs no search through the object")
  func manyRepetitions() throws {
    let count = 20_000
    let names = (0..<count).map { "\"n\($0)\":0" }.joined(separator: ",")
    let last = Array(repeating: "\"n\(count - 1)\":1", count: count).joined(separator: ",")
    let first = Array(repeating: "\"n0\":1", count: count).joined(separator: ",")
    var options = JSON.Options()
    options.repeated = .last
    let texts = [first, last].map { Array("{\(names),\($0)}".utf8) }
    var times: [Duration] = []
    for text in texts {
      times.append(
        try (0..<3).map { _ in
          try processorTime {
            let value = try JSON.read(text, options).outcome.get()
            #expect(value.members?.count == count)
          }
        }.min() ?? .zero)
    }
    // A search would take 20,000 times longer to the last name than to the first.
    #expect(times[1] < times[0] * 20, "\(times)")
  }

  @Test("many members are written without a search for each")
  func manyMembers() throws {
    func time(_ count: Int) -> Duration {
      let members = Dictionary(uniqueKeysWithValues: (0..<count).map { ("n\($0)", $0) })
      return (0..<3).map { _ in processorTime { _ = JSON(encoding: members) } }.min() ?? .zero
    }
    #expect(time(32_000) < time(2000) * 64)
  }

  @Test("sorted names give equal bytes")
  func sorting() throws {
    let (one, two) = (
      try JSON.parse(#"[{"b":{"d":1,"c":2},"a":3}]"#.utf8), try JSON.parse(#"[{"a":3,"b":{"c":2,"d":1}}]"#.utf8)
    )
    #expect(one.text() != two.text() && one.text(sorted: true) == two.text())
    #expect(JSON.object(["b": 1, "a": 2] as [String: JSON]).text() == #"{"a":2,"b":1}"#)
  }
}

@Suite struct RedactedTests {
  private struct Silent: Redacted { let text = "s3cret" }
  private struct Named: Redacted {
    let text = "s3cret"
    var description: String { "key of work" }
  }
  private struct Outer {
    let silent = Silent()
    let named: Named? = Named()
  }

  /// By interpolation, in a collection, for a debugger, by `dump` and by reflection.
  private func shown(_ value: Any) -> [String] {
    var dumped = ""
    dump(value, to: &dumped)
    let children = Mirror(reflecting: value).children.map { "\($0.label ?? "") \($0.value)" }
    return ["\(value)", "\([value])", String(reflecting: value), dumped] + children
  }

  @Test("a redacted value shows its description, and no members")
  func prints() {
    #expect(shown(Silent()).count == 4 && shown(Silent()).allSatisfy { $0.contains("‹redacted›") })
    #expect(shown(Named()).count == 4 && shown(Named()).allSatisfy { $0.contains("key of work") })
    for text in shown(Outer()) + shown(Silent()) + shown(Named()) { #expect(!text.contains("s3cret")) }
  }
}

/// The processor time that this thread uses for it: other programs do not count.
private func processorTime(_ body: () throws -> Void) rethrows -> Duration {
  func now() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }
  let begun = now()
  try body()
  return now() - begun
}
