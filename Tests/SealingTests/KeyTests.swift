import Foundation
import Sealing
import Testing

@Suite("The sealing key")
struct KeyTests {
  private static let bytes = Data(0..<32)
  private static let base64 = bytes.base64EncodedString()

  @Test(
    "is 32 bytes, or their hexadecimal or base64 text",
    arguments: [
      bytes, Data(Sample.keyText.utf8), Data(Sample.keyText.uppercased().utf8), Data("\(base64)\n".utf8),
      Data(" \(base64.dropLast()) ".utf8),
    ])
  func forms(contents: Data) throws {
    #expect(try SealingKey(contents, source: "x").exposedText == Self.base64)
  }

  @Test(
    "is refused in any other form",
    arguments: [
      Data(), Data([1]), Data(0..<31), Data(0..<33), Data(count: 32), Data("0123456789abcdef0123456789abcdef".utf8),
      Data("secret\n".utf8), Data(String(repeating: "0", count: 64).utf8), Data(count: 100_000),
      Data(Data(0..<31).base64EncodedString().utf8), Data(String(repeating: "zz", count: 32).utf8),
    ])
  func badForms(contents: Data) {
    let error = #expect(throws: SealingError.self) { try SealingKey(contents, source: "x") }
    #expect(error == .unusableKey(source: "x", detail: error?.detail ?? ""))
  }

  @Test("is in no text that shows it")
  func hidden() {
    var dumped = ""
    dump(Sample.key, to: &dumped)
    for text in ["\(Sample.key)", String(reflecting: Sample.key), dumped] {
      #expect(text.contains("test") && !text.contains(Self.base64.prefix(20)) && !text.contains("Symmetric"))
    }
  }

  @Test("is another one each time it is made")
  func random() {
    #expect(SealingKey.random(source: "x").exposedText != SealingKey.random(source: "x").exposedText)
  }
}
