import Foundation

/// One reader of untrusted input, and the conditions that hold for any input. libFuzzer feeds it (``Harness``), and so do
/// the unit tests, with everything in `corpus` and `regressions`.
struct Target: Sendable {
  /// Also the name of its folders in `corpus` and `regressions`.
  var name: String
  /// Bytes beyond this find nothing new.
  var longest: Int
  /// Throws if a condition does not hold; a trap is found too.
  var check: @Sendable ([UInt8]) throws -> Void

  static let all = [
    frames, json, rpc, tokens, answers, discovery, jwt, signed, keys, callback, native, http, toml, texts, helpers,
    mapping,
  ]
}

/// A promise that an input broke.
struct Broken: Error, CustomStringConvertible {
  var description: String
}

func expect(_ condition: Bool, _ promise: @autoclosure () -> String) throws {
  if !condition { throw Broken(description: promise()) }
}

/// Numbers that an input chooses, so that it decides everything (SplitMix64).
struct Chosen: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}

/// The bytes as text, each broken sequence replaced.
func decoded(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

/// Whether it can control a terminal or a log line, or make one look like another.
func steers(_ scalar: Unicode.Scalar) -> Bool {
  if scalar.value >= 0x20, scalar.value < 0x7F { return false }
  return switch scalar.properties.generalCategory {
  case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned, .surrogate: true
  // Fillers, and the empty Braille pattern.
  case .otherLetter: scalar.properties.isDefaultIgnorableCodePoint
  case .otherSymbol: scalar.value == 0x2800
  default: false
  }
}

/// For messages to users: printable, and no longer than the limit of untrusted texts.
func expectSayable(_ said: String, longest: Int = 4096) throws {
  try expect(
    !said.unicodeScalars.contains(where: steers), "a message has a control character: \(said.debugDescription)")
  try expect(said.unicodeScalars.count <= longest, "a message has \(said.unicodeScalars.count) characters")
}
