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
    let unnamed = fill(&queue, 100, .unnamed)
    let unidentified = fill(&queue, 300, .unidentified(user: 1000))
    let others = fill(&queue, 1, .unidentified(user: 1001))
    #expect(unnamed == 16 && unidentified == 192 && others == 1 && !queue.isFull)
    let named = fill(&queue, 47, .named)
    #expect(named == 47 && queue.isFull)
  }

  @Test("Connections that the event loop takes make room again, in the order of arrival")
  func order() {
    var queue = AcceptQueue<Int>()
    let first = [fill(&queue, 300, .unidentified(user: 1000)), fill(&queue, 100, .unnamed)]
    let areTaken = [queue.reserve(.unnamed), queue.reserve(.unidentified(user: 1000))]
    #expect(first == [192, 16] && areTaken == [false, false])
    let batch = queue.removeBatch()
    let second = [fill(&queue, 100, .unidentified(user: 1000)), fill(&queue, 100, .unnamed)]
    #expect(batch == Array(0..<16) && second == [16, 0])
    // All but the last 16, which are not of callers without a rule.
    let batches = (0..<12).map { _ in queue.removeBatch().count }
    let third = fill(&queue, 100, .unnamed)
    #expect(batches == Array(repeating: 16, count: 12) && third == 16)
    while !queue.isEmpty { _ = queue.removeBatch() }
    let last = [fill(&queue, 100, .unnamed), fill(&queue, 300, .unidentified(user: 1000))]
    #expect(last == [16, 192])
  }
}
