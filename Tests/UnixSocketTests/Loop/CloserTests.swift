import TestSupport
import Testing

@testable import UnixSocket

/// The threads for sockets whose close may block, and the sockets that wait for one.
@Suite(.timeLimit(.minutes(5))) struct CloserTests {
  private func with(_ body: (Closer, HeldCloses) async throws -> Void) async throws {
    let closes = HeldCloses()
    defer { closes.release() }
    try await body(Closer(close: closes.closeNothing), closes)
  }

  private func close(_ count: Int, of user: UInt32, isUnnamed: Bool = false, by closer: Closer) {
    for _ in 0..<count { closer.close(-1, of: .init(user: user, isUnnamed: isUnnamed)) {} }
  }

  @Test("a user has a limited number of threads and of waiting sockets, with and without a rule") func ofUser()
    async throws
  {
    try await with { closer, closes in
      close(Closer.threadsOfUser, of: 1000, by: closer)
      close(Closer.waitingOfUser - 1, of: 1000, by: closer)
      #expect(!closer.isFull(1000))
      close(1, of: 1000, isUnnamed: true, by: closer)
      #expect(closer.isFull(1000) && !closer.isFull(2000))
      close(1, of: 2000, by: closer)
      try await eventually("the other user's close begins") { closes.begun == Closer.threadsOfUser + 1 }
      closes.release()
      let count = Closer.threadsOfUser + Closer.waitingOfUser + 1
      try await eventually("all are closed") { closes.ended == count }
      #expect(!closer.isFull(1000))
    }
  }

  @Test("if too many sockets wait in all, users with none are not refused") func ofAll() async throws {
    try await with { closer, _ in
      let users = UInt32(Closer.waitingOfAll / (Closer.waitingOfUser - 1) + 1)
      for user in 1...users {
        #expect(!closer.isFull(user))
        close(Closer.threadsOfUser + Closer.waitingOfUser - 1, of: user, by: closer)
      }
      #expect(closer.isFull(1) && closer.isFull(users) && !closer.isFull(users + 1))
    }
  }

  @Test("callers without a rule leave threads to the others") func unnamed() async throws {
    try await with { closer, closes in
      for user in UInt32(1)...4 { close(Closer.threadsOfUser, of: user, isUnnamed: true, by: closer) }
      try await eventually("their threads are busy") { closes.begun == Closer.threadsOfUnnamed }
      close(1, of: 5, by: closer)
      try await eventually("another close begins") { closes.begun == Closer.threadsOfUnnamed + 1 }
    }
  }
}
