import PlainText
import TestSupport
import Testing

@testable import grantctl

/// Foreign text on a terminal.
@Suite struct UnsafeCharacterTests {
  @Test("a character is safe if it is visible and does not change the text around it")
  func characters() {
    for scalar in UnsafeCharacters.all { #expect(!scalar.isSafe, "\(scalar.value)") }
    for scalar in UnsafeCharacters.safe { #expect(scalar.isSafe, "\(scalar.value)") }
  }

  @Test("a terminal gets an escape instead of an unsafe character")
  func escapes() {
    for scalar in UnsafeCharacters.all {
      let text = "a" + String(scalar) + "b"
      var found = [SafeText.line(text), SafeText.lines(text).joined()]
      // Tabs are a part of the line's format, and line feeds one of the JSON text's.
      if scalar != "\t" { found.append(SafeText.indented(text)) }
      if scalar != "\n" { found.append(SafeText.json(text)) }
      for line in found {
        #expect(line.utf8.allSatisfy { (0x20..<0x7F).contains($0) } && line.hasPrefix("a"), "\(scalar.value)")
      }
      #expect(SafeText.line(text).hasPrefix("a\\") && SafeText.line(text).hasSuffix("b"), "\(scalar.value)")
    }
  }

  @Test("safe characters stay")
  func unchanged() {
    for scalar in UnsafeCharacters.safe {
      let text = "a" + String(scalar) + "b"
      for line in [SafeText.line(text), SafeText.lines(text).joined(), SafeText.indented(text), SafeText.json(text)] {
        #expect(line.unicodeScalars.elementsEqual(text.unicodeScalars), "\(scalar.value)")
      }
    }
  }
}
