import Testing

@testable import SQLiteStore
@testable import StoreRows

@Suite("Scopes in a column")
struct ScopeTextTests {
  @Test(
    "are read as they were written, even with hostile content",
    arguments: [
      [], ["a"], ["a", "b:c/d"], [""], ["", "a", ""], ["a b"], ["%"], ["%20"], ["%2500"], ["a\0b"], ["%", "% %25 "],
      ["a \u{301}b"], ["%\u{301}"], ["\u{1f511}"],
    ])
  func roundTrip(scopes: [String]) {
    let text = ScopeText.join(scopes)
    #expect(!text.utf8.contains(0))
    #expect(ScopeText.split(text).map { Array($0.utf8) } == scopes.map { Array($0.utf8) })
  }
}
