import Grants
import OAuth
import Testing

@testable import Broker

@Suite(.scheduled, .timeLimit(.minutes(5))) struct RevocationsTests {
  @Test("A token stays on disk to be revoked until the provider answers, and is tried again after a failure")
  @BrokerActor func untilAnswered() async {
    let parts = Parts()
    let revocations = Revocations(parts.runtime, providers: parts.directory(), journal: parts.journal)
    parts.transport.answer(.revocation) { _ in HTTPResponse(status: 503) }
    await revocations.queue([(Secret("r1"), "refresh_token")], provider: provider("example"))
    #expect(revocations.count == 1 && parts.store.revocations.map(\.token) == [Secret("r1")])
    _ = revocations.tick()
    #expect(await eventually { parts.store.revocations.first?.attempts == 1 })
    #expect(await eventually { revocations.tick().map { $0 > parts.runtime.clock.now } == true })
    #expect(parts.transport.count(.revocation) == 1)
    parts.transport.answer(.revocation) { _ in HTTPResponse(status: 200) }
    revocations.recheck()
    _ = revocations.tick()
    await settle()
    #expect(parts.store.revocations.isEmpty && revocations.count == 0 && parts.transport.count(.revocation) == 2)
  }

  @Test("There are so many at most, and each is another")
  @BrokerActor func bounded() {
    let parts = Parts()
    let revocations = Revocations(parts.runtime, providers: parts.directory(), journal: parts.journal)
    let tokens = (0..<Limit.revocations + 10).map { (token: Secret("r\($0)"), hint: "refresh_token") }
    let added = revocations.add(tokens, provider: provider("example"))
    #expect(added.count == Limit.revocations && Set(added.map(\.id)).count == added.count)
    #expect(revocations.add(tokens, provider: provider("example")).isEmpty)
  }

  @Test("A few are tried at a time, over separate connections, and each once")
  @BrokerActor func fewAtATime() async {
    let parts = Parts()
    let revocations = Revocations(parts.runtime, providers: parts.directory(), journal: parts.journal)
    parts.transport.hold(.revocation)
    let tokens = (0..<20).map { (token: Secret("r\($0)"), hint: "refresh_token") }
    await revocations.queue(tokens, provider: provider("example"))
    for _ in 0..<3 { _ = revocations.tick() }
    #expect(await eventually { parts.transport.held(.revocation) == Limit.revocationsAtOnce })
    // Being asked again begins none of them twice.
    revocations.recheck()
    revocations.clockStepped()
    _ = revocations.tick()
    await settle()
    #expect(parts.transport.held(.revocation) == Limit.revocationsAtOnce)
    #expect(Set(parts.transport.pools(.revocation).map(\.use)) == [.revocations])
    parts.transport.release(.revocation)
    #expect(await eventually { revocations.count == 0 })
    #expect(parts.transport.count(.revocation) == 20)
  }
}
