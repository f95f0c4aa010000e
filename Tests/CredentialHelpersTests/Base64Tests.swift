import CredentialHelpers
import Testing

@Suite struct Base64Tests {
  @Test(
    "the test vectors of RFC 4648 §10 hold both ways",
    arguments: [
      ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
      ("foobar", "Zm9vYmFy"),
    ])
  func vectors(text: String, encoded: String) {
    #expect(Base64.encoded(text.utf8) == encoded)
    #expect(Base64.decoded(encoded) == Array(text.utf8))
  }

  @Test("all bytes come back") func allBytes() {
    let bytes = (0...255).map { UInt8($0) }
    for count in 0...bytes.count {
      let some = Array(bytes.prefix(count))
      #expect(Base64.decoded(Base64.encoded(some)) == some)
    }
  }

  @Test(
    "other texts are not base64",
    arguments: ["Zg", "Zg=", "Z===", "====", "Zm9v\n", "Zm-v", "Zm=v", "Zg==Zg==", "é=="])
  func wrong(text: String) {
    #expect(Base64.decoded(text) == nil)
  }
}
