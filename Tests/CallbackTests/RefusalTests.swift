import TestSupport
import Testing

@testable import Callback

@Suite struct RefusalTests {
  @Test("a description has only the characters of RFC 6749 §5.2")
  func characters() {
    for scalar in UnsafeCharacters.all + UnsafeCharacters.safe {
      let text = Refusal.printable("a" + String(scalar) + "b")
      let isAllowed = text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != 0x5C }
      #expect(isAllowed && text.count == 3, "\(scalar.value)")
    }
  }
}
