import Foundation
import Sealing
import Testing

@Suite("A sealed column")
struct SealerTests {
  private static let place = Place(table: "grants", row: ["work", "op"])
  private static let value = Data("a refresh token".utf8)

  private static func seal() throws -> Data { try Sample.key.sealer.seal(value, at: place, column: "refresh_token") }

  /// Sealed by grantd before Sealing was a room.
  private static let older = bytes(
    hex: "01bc4ee36557d54d8dee19a9013a283dd5d7315e0142781cfcd40c4bc2c71043e03fdac3ac296a141ae7b9637fe1094e")

  @Test("opens under its key and in its place, and looks different each time")
  func opens() throws {
    let sealed = try Self.seal()
    #expect(try Sample.key.sealer.open(sealed, at: Self.place, column: "refresh_token") == Self.value)
    #expect(try Self.seal() != sealed)
    #expect(sealed.range(of: Self.value) == nil)
    // Version, key's name, nonce, ciphertext, tag.
    #expect(sealed.count == 1 + 4 + 12 + Self.value.count + 16)
  }

  @Test("has a row whose code depends on the key, the table and each byte")
  func codes() {
    let (sealer, row) = (Sample.key.sealer, Array("work|openid".utf8))
    let code = sealer.code(of: row, in: "grants")
    #expect(code == sealer.code(of: row, in: "grants") && code.count == Sealer.codeLength)
    #expect(code != sealer.code(of: row, in: "tokens"))
    #expect(code != sealer.code(of: Array("work|openie".utf8), in: "grants"))
    #expect(code != Sample.otherKey.sealer.code(of: row, in: "grants"))
  }

  @Test("of an earlier version opens")
  func earlier() throws {
    #expect(try Sample.key.sealer.open(Self.older, at: Self.place, column: "refresh_token") == Self.value)
  }

  @Test(
    "that was moved does not open",
    arguments: [
      (Place(table: "tokens", row: ["work", "op"]), "refresh_token"),
      (Place(table: "grants", row: ["home", "op"]), "refresh_token"),
      (Place(table: "grants", row: ["work", "other"]), "refresh_token"),
      (Place(table: "grants", row: ["workop"]), "refresh_token"),
      (Place(table: "grants", row: ["work", "op", ""]), "refresh_token"),
      (Place(table: "grants", row: ["work"]), "oprefresh_token"),
      (Place(table: "grantswork", row: ["op"]), "refresh_token"),
      (Place(table: "grants", row: ["work", "op"]), "id_token"),
    ])
  func moved(place: Place, column: String) {
    #expect(throws: Sealer.Failure.damaged) {
      try Sample.key.sealer.open(Self.seal(), at: place, column: column)
    }
  }

  @Test("with any one byte changed, or cut, does not open")
  func changed() throws {
    let sealed = try Self.seal()
    for index in sealed.indices {
      var changed = sealed
      changed[index] ^= 0x10
      // The key's name is not a secret: data with another name belong to another key.
      #expect(throws: (1...4).contains(index) ? Sealer.Failure.otherKey : .damaged, "byte \(index)") {
        try Sample.key.sealer.open(changed, at: Self.place, column: "refresh_token")
      }
      #expect(throws: Sealer.Failure.damaged, "cut at \(index)") {
        try Sample.key.sealer.open(sealed[..<index], at: Self.place, column: "refresh_token")
      }
    }
  }

  @Test("under another key reports it")
  func otherKey() throws {
    #expect(throws: Sealer.Failure.otherKey) {
      try Sample.otherKey.sealer.open(Self.seal(), at: Self.place, column: "refresh_token")
    }
  }
}
