import Foundation
import JSON

@testable import OAuth

extension Target {
  /// The JSON reader with the options of the socket and of messages, and against Foundation's.
  static let json = Target(name: "json", longest: 4096) { bytes in
    let api = read(bytes)
    let oauth = JSON(message: bytes)
    if case .success(let value) = api { try checkWriting(value) }
    if let oauth {
      try expect(JSON(message: oauth.serialized()) == oauth, "the reader of messages changes its own output")
    }
    try compareReaders(bytes, api, oauth)
    try compareWithFoundation(bytes, api)
  }

  private static func read(_ bytes: [UInt8]) -> Result<JSON, JSONError> {
    do throws(JSONError) {
      return .success(try JSON.parse(bytes))
    } catch {
      return .failure(error)
    }
  }

  private static func checkWriting(_ value: JSON) throws {
    let written = value.serialized()
    try expect(!written.contains { $0 < 0x20 }, "a raw control character is written")
    try expect(try JSON.parse(written) == value, "the reader changes its own output")
  }

  /// They differ in depth, in a byte order mark, and in which names are the same.
  private static func compareReaders(
    _ bytes: [UInt8], _ api: Result<JSON, JSONError>, _ oauth: JSON?
  ) throws {
    guard !bytes.starts(with: [0xEF, 0xBB, 0xBF]) else { return }
    switch (api, oauth) {
    case (.success(let value), let other?):
      try expect(value == other, "the options read different values")
    case (.success(let value), nil):
      try expect(
        depth(value) > JSON.messageOptions.depth || hasEquivalentNames(value),
        "the options of messages refuse valid JSON")
    case (.failure(let error), .some):
      throw Broken(description: "the options of messages accept invalid JSON: \(error)")
    case (.failure, nil): return
    }
  }

  private static func depth(_ value: JSON) -> Int {
    switch value {
    case .null, .bool, .number, .string: 0
    case .array(let elements): 1 + (elements.map(depth).max() ?? 0)
    case .object(let members): 1 + (members.map { depth($0.value) }.max() ?? 0)
    }
  }

  /// Names of different bytes that Unicode takes for the same.
  private static func hasEquivalentNames(_ value: JSON) -> Bool {
    switch value {
    case .null, .bool, .number, .string: false
    case .array(let elements): elements.contains(where: hasEquivalentNames)
    case .object(let members):
      Set(members.map(\.name)).count < members.count || members.contains { hasEquivalentNames($0.value) }
    }
  }

  /// Foundation guesses encodings from NULs and marks, drops a byte order mark from a string's beginning, goes deeper, keeps one of two members with one name, knows no
  /// number beyond a Double, and takes a comma before the end of an array or object.
  private static func compareWithFoundation(_ bytes: [UInt8], _ api: Result<JSON, JSONError>) throws {
    guard !bytes.contains(0), !decoded(bytes).unicodeScalars.contains("\u{FEFF}"), !bytes.starts(with: [0xFE, 0xFF]),
      !bytes.starts(with: [0xFF, 0xFE])
    else { return }
    let theirs = try? JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
    switch (api, theirs) {
    case (.success(let value), let other?):
      if !hasEquivalentNames(value) { try expect(isSame(value, other), "Foundation reads another value: \(other)") }
    case (.success(let value), nil):
      try expect(hasHugeNumber(value), "Foundation refuses valid JSON")
    case (.failure(let error), .some):
      let known = [
        "the same member twice", "nested deeper", "unexpected ']', expected a value",
        "unexpected '}', expected a member's name",
      ]
      let isKnown = known.contains { error.message.hasPrefix($0) }
      try expect(isKnown, "Foundation takes it, and the reader says: \(error)")
    case (.failure, nil): return
    }
  }

  private static func hasHugeNumber(_ value: JSON) -> Bool {
    switch value {
    case .null, .bool, .string: false
    case .number(let literal): literal.utf8.count > 15 || literal.contains { "eE".contains($0) }
    case .array(let elements): elements.contains(where: hasHugeNumber)
    case .object(let members): members.contains { hasHugeNumber($0.value) }
    }
  }

  private static func isSame(_ value: JSON, _ other: Any) -> Bool {
    switch (value, other) {
    case (.null, is NSNull): return true
    case (.bool(let one), let two as Bool): return one == two
    case (.number(let literal), let two as NSNumber):
      let (one, two) = (Double(literal) ?? .nan, two.doubleValue)
      return one == two || abs(one - two) <= abs(one) * 1e-12
    case (.string(let one), let two as String): return Array(one.utf8) == Array(two.utf8)
    case (.array(let one), let two as [Any]):
      return one.count == two.count && zip(one, two).allSatisfy { isSame($0, $1) }
    case (.object(let one), let two as [String: Any]):
      return one.count == two.count
        && one.allSatisfy { member in two[member.name].map { isSame(member.value, $0) } ?? false }
    default: return false
    }
  }
}
