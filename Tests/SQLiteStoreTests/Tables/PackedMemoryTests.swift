import Testing

@testable import SQLiteStore
@testable import StoreRows

@Suite("Memory of packed accounts") struct PackedMemoryTests {
  /// A noncopyable slot in an array.
  private final class Piece {
    let slot: PackedMemory.Slot
    init(_ bytes: [UInt8], in memory: PackedMemory) throws {
      slot = try memory.store(bytes)
    }
    var bytes: [UInt8] { slot.withBytes(Array.init) }
  }

  /// Each byte is that before it and one more; numbers begin with different ones.
  private func text(_ number: Int, _ count: Int) -> [UInt8] {
    let start = number & 0xFF
    return Array(Self.pattern[start..<start + count])
  }

  /// Doubled, since a loop over a megabyte takes long in a debug build.
  private static let pattern = {
    var bytes = (0...255).map { UInt8($0) }
    while bytes.count <= 2 << 20 { bytes += bytes }
    return bytes
  }()

  @Test(
    "each slot keeps its own bytes, of any size", arguments: [0, 1, 63, 64, 65, 1300, 4096, 1 << 20, (1 << 20) + 1])
  func keeps(_ size: Int) throws {
    let memory = PackedMemory()
    let pieces = try (0..<20).map { try Piece(text($0, size), in: memory) }
    for (number, piece) in pieces.enumerated() { #expect(piece.bytes == text(number, size)) }
  }

  @Test("accounts that are packed again, in any order, take no more memory than before") func reuse() throws {
    let memory = PackedMemory()
    var random = SystemRandomNumberGenerator()
    var pieces = try (0..<5000).map { try Piece(text($0, 1200 + $0 % 64), in: memory) }
    let room = memory.roomInOpenBlocks
    for round in 1...3 {
      for index in pieces.indices.shuffled(using: &random) {
        pieces[index] = try Piece(text(index + round, 1200 + index % 64), in: memory)
      }
    }
    for (index, piece) in pieces.enumerated() { #expect(piece.bytes == text(index + 3, 1200 + index % 64)) }
    // One more of each of the two sizes was there at a time.
    #expect(memory.roomInOpenBlocks <= room + 2 * PackedMemory.blockSize)
  }

  @Test("the memory of many removed accounts is returned, and overwritten") func givenBack() throws {
    let memory = PackedMemory()
    var pieces = try (0..<5000).map { try Piece(text($0, 1200), in: memory) }
    let last = try #require(pieces.last)
    pieces = []
    #expect(memory.roomInOpenBlocks < 2 * PackedMemory.blockSize)
    #expect(last.bytes == text(4999, 1200))
    // The slot before it, whose block the last one keeps.
    let freed = last.slot.withBytes { UnsafeRawBufferPointer(start: $0.baseAddress! - 1216, count: 1216) }
    #expect(freed.allSatisfy { $0 == 0 })
  }
}
