import Testing

@testable import Callers

@Suite struct OwnedCacheTests {
  private func filled(_ counts: [String: Int]) -> OwnedCache<String, String, Int> {
    var cache = OwnedCache<String, String, Int>(limit: 8, limitOfOwner: 4)
    for (owner, count) in counts.sorted(by: { $0.key < $1.key }) {
      for number in 0..<count { cache.insert(number, for: "\(owner)\(number)", of: owner) }
    }
    return cache
  }

  @Test("an owner's oldest entry makes room for its next one") func ofOwner() {
    let cache = filled(["a": 6, "b": 1])
    #expect((0..<6).map { cache["a\($0)"] } == [nil, nil, 2, 3, 4, 5] && cache["b0"] == 0)
  }

  @Test("the owner with the most entries makes room for others") func ofAll() {
    let cache = filled(["a": 2, "b": 4, "c": 3])
    #expect(cache["a0"] == 0 && cache["a1"] == 1 && cache["b3"] == nil && cache["c2"] == 2)
  }

  @Test("an entry that is replaced counts once, for its present owner") func replaced() {
    var cache = filled(["a": 4])
    for _ in 0..<10 { cache.insert(9, for: "a0", of: "a") }
    #expect((0..<4).map { cache["a\($0)"] } == [9, 1, 2, 3])
    cache.insert(7, for: "a1", of: "b")
    cache.insert(8, for: "new", of: "a")
    #expect(cache["a0"] == 9 && cache["a1"] == 7 && cache["a2"] == 2 && cache["new"] == 8)
  }
}
