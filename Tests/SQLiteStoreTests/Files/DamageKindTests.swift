import SQLite
import Testing

@testable import SQLiteStore

/// Which failures of SQLite are damage: only then a new database without the unreadable rows may replace the present one.
@Suite struct DamageKindTests {
  @Test("damage is skipped", arguments: [ResultCode.corrupt, .notADatabase, .error])
  func damage(code: ResultCode) throws {
    let value: Int? = try DatabaseError.readable { throw DatabaseError(code) }
    #expect(value == nil)
  }

  @Test(
    "a temporary fault is an error",
    arguments: [ResultCode.read, .inputOutput, .outOfMemory, .busy, .locked, .cannotOpen, .full])
  func passing(code: ResultCode) {
    #expect(throws: DatabaseError(code)) {
      try DatabaseError.readable { () throws -> Int? in throw DatabaseError(code) }
    }
  }
}
