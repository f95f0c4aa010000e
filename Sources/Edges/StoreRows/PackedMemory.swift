import Glibc
package import SQLite
import Synchronization

/// Memory for packed accounts, apart from the heap. Among the heap's other pieces each account keeps a page in use whose
/// rest was freed: after a storm of refreshes that is as much as the accounts themselves.
///
/// Slots of one size share a block, so that a slot that was freed fits the next account of that size.
package final class PackedMemory: Sendable {
  /// Sizes of slots are multiples of it.
  private static let step = 64
  /// The size of a block. A larger slot has a separate block.
  package static let blockSize = 1 << 20

  package init() {}

  /// The blocks with a free slot, by the size of their slots.
  private let open = Mutex<[Int: [Block]]>([:])

  /// A piece that one account lies in, until it is let go.
  package struct Slot: ~Copyable, Sendable {
    private let memory: PackedMemory
    private let block: Block
    private let index: UInt32
    private let count: UInt32

    fileprivate init(_ memory: PackedMemory, _ block: Block, _ index: UInt32, count: Int) {
      self.memory = memory
      self.block = block
      self.index = index
      self.count = UInt32(count)
    }

    deinit { memory.free(block, index) }

    borrowing func withBytes<Value>(_ read: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
      try read(UnsafeRawBufferPointer(rebasing: block.slot(index)[..<Int(count)]))
    }
  }

  /// - Throws: `outOfMemory` where the kernel gives no memory.
  package func store(_ bytes: [UInt8]) throws(DatabaseError) -> Slot {
    let size = max(1, (bytes.count + Self.step - 1) / Self.step) * Self.step
    let found = open.withLock { open -> (Block, UInt32)? in
      if open[size, default: []].isEmpty {
        guard let block = Block(slotSize: size) else { return nil }
        open[size, default: []].append(block)
      }
      guard let block = open[size]?.last else { return nil }
      let index = block.allocate()
      if block.isFull { open[size]?.removeLast() }
      return (block, index)
    }
    guard let (block, index) = found else { throw DatabaseError(.outOfMemory) }
    // No other row has this slot.
    bytes.withUnsafeBytes { block.slot(index).copyMemory(from: $0) }
    return Slot(self, block, index, count: bytes.count)
  }

  private func free(_ block: Block, _ index: UInt32) {
    // As the heap does with freed memory.
    block.slot(index).initializeMemory(as: UInt8.self, repeating: 0)
    open.withLock { open in
      if block.isFull { open[block.slotSize, default: []].append(block) }
      block.giveBack(index)
      // Its memory goes back to the kernel, unless the next account would take it again at once.
      guard block.isEmpty, let blocks = open[block.slotSize], blocks.count > 1 else { return }
      open[block.slotSize] = blocks.filter { $0 !== block }
    }
  }

  /// How many bytes the blocks with a free slot have, for tests.
  package var roomInOpenBlocks: Int { open.withLock { $0.values.joined().reduce(0) { $0 + $1.room } } }
}

extension PackedMemory {
  /// - Note: ``slot(_:)`` is read and written by the slot's row; the rest is the lock's.
  fileprivate final class Block: @unchecked Sendable {
    let slotSize: Int
    private let memory: UnsafeMutableRawBufferPointer
    private let slots: UInt32
    /// Those from here on were never taken: their pages cost nothing yet.
    private var untouched: UInt32 = 0
    private var free: [UInt32] = []

    init?(slotSize: Int) {
      let size = max(slotSize, PackedMemory.blockSize)
      let start = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
      guard let start, start != MAP_FAILED else { return nil }
      self.slotSize = slotSize
      memory = UnsafeMutableRawBufferPointer(start: start, count: size)
      slots = UInt32(size / slotSize)
    }

    deinit { munmap(memory.baseAddress, memory.count) }

    var isFull: Bool { untouched == slots && free.isEmpty }
    var isEmpty: Bool { free.count == Int(untouched) }
    var room: Int { (free.count + Int(slots - untouched)) * slotSize }

    func allocate() -> UInt32 {
      if let index = free.popLast() { return index }
      defer { untouched += 1 }
      return untouched
    }

    func giveBack(_ index: UInt32) { free.append(index) }

    func slot(_ index: UInt32) -> UnsafeMutableRawBufferPointer {
      UnsafeMutableRawBufferPointer(rebasing: memory[(Int(index) * slotSize)..<((Int(index) + 1) * slotSize)])
    }
  }
}
