import Testing

@testable import HTTPServer

/// Connections between accept(2) and the event loop.
@Suite struct AcceptQueueTests {
  /// The number of connections that are taken.
  private func fill(_ queue: inout AcceptQueue<Int>, _ count: Int, _ room: AcceptRoom) -> Int {
    let taken = (0..<count).filter { _ in queue.reserve(room) }
    queue.append(taken.map { ($0, room) })
    return taken.count
  }

  @Test("Callers without a rule leave room for a caller whose unit is not known yet")
  func unidentified() {
    var queue = AcceptQueue<Int>()
    #expect(fill(&queue, 100, .unnamed) == 16)
    #expect(fill(&queue, 100, .unidentified(user: 1000)) == 64)
    #expect(fill(&queue, 1, .unidentified(user: 1001)) == 1)
    #expect(fill(&queue, 200, .named) == 200)
    #expect(queue.isFull)
  }

  @Test("What the event loop takes makes room again, in the order of arrival")
  func order() {
    var queue = AcceptQueue<Int>()
    #expect(fill(&queue, 100, .unidentified(user: 1000)) == 64)
    #expect(fill(&queue, 100, .unnamed) == 16)
    let first = queue.removeBatch()
    #expect(first == Array(0..<16))
    #expect(fill(&queue, 1, .unnamed) == 0)
    #expect(fill(&queue, 100, .unidentified(user: 1000)) == 16)
    var count = 0
    for _ in 0..<4 { count += queue.removeBatch().count }
    #expect(count == 64)
    #expect(fill(&queue, 100, .unnamed) == 16)
    while !queue.isEmpty { _ = queue.removeBatch() }
    #expect(fill(&queue, 100, .unnamed) == 16)
    #expect(fill(&queue, 100, .unidentified(user: 1000)) == 64)
  }
}
