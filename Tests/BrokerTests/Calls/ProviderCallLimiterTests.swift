import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals
import Providers
import Testing

@testable import Broker

/// Whose requests may be under way at a provider.
@Suite(.scheduled, .timeLimit(.minutes(5))) struct ProviderCallLimiterTests {
  private func rig() async throws -> Rig {
    let store = MemoryStore()
    try await store.signIn("work")
    try await store.signIn("old", age: .seconds(3590))
    let rules = [1001, 1002].map { (uid: UInt32) in
      Rule(name: "\(uid)", uid: uid, gid: nil, accounts: ["*"], access: [.use])
    }
    let settings = ProviderSettings.plain { $0.api.base = URL(string: "https://id.example/api/") }
    let rig = try await Rig(store: store, configuration: .plain([OAuthProvider(settings)], rules: rules))
    rig.transport.answer(.resource) { _ in reply("{}") }
    return rig
  }

  private func send(
    _ rig: Rig, _ uid: UInt32, timeout: Double = 60, on session: FakeSession? = nil
  ) -> Task<ErrorReason?, Never> {
    let params = RequestSend.Params(account: "work", method: "POST", url: "/x", timeout: timeout)
    return Task {
      await rig.reason {
        if let session {
          _ = try await rig.call(RequestSend.self, params, on: session)
        } else {
          _ = try await rig.call(RequestSend.self, params, as: .user(uid))
        }
      }
    }
  }

  @Test("One holder's requests that hang keep neither another's, nor root's, nor refreshes, from theirs")
  func share() async throws {
    let rig = try await rig()
    rig.transport.hold(.resource)
    let crowd = (0..<200).map { _ in send(rig, 1001) }
    #expect(await eventually { rig.transport.held(.resource) == Limit.callsPerHolder })
    await settle()
    #expect(rig.transport.held(.resource) == Limit.callsPerHolder)
    let others = [send(rig, 1002), send(rig, 0)]
    #expect(await eventually { rig.transport.held(.resource) == Limit.callsPerHolder + 2 })
    let get = TokenGet.Params(account: "old")
    #expect(try await rig.call(TokenGet.self, get, as: .user(1002)).generation == 2)
    rig.transport.release(.resource)
    for task in crowd + others { #expect(await task.value == nil) }
  }

  @Test("A slot is held until the request ends, even if the caller was answered earlier")
  func abandoned() async throws {
    let rig = try await rig()
    rig.transport.hold(.resource)
    let asked = (0..<Limit.callsPerHolder).map { _ in send(rig, 1001, timeout: 0.05) }
    #expect(await eventually { rig.transport.held(.resource) == Limit.callsPerHolder })
    rig.clock.advance(.seconds(1))
    for task in asked { #expect(await task.value == .timedOut) }
    let next = send(rig, 1001, timeout: 5)
    await settle()
    #expect(rig.transport.held(.resource) == Limit.callsPerHolder)
    rig.clock.advance(.seconds(5))
    #expect(await next.value == .overloaded)
    rig.transport.release(.resource)
    #expect(await send(rig, 1001).value == nil)
  }

  @Test("Nothing is sent for a caller that has gone while it waited for its place")
  func gone() async throws {
    let rig = try await rig()
    rig.transport.hold(.resource)
    let first = (0..<Limit.callsPerHolder).map { _ in send(rig, 1001) }
    #expect(await eventually { rig.transport.held(.resource) == Limit.callsPerHolder })
    let session = FakeSession(.user(1001))
    let last = send(rig, 1001, on: session)
    await settle()
    session.close()
    rig.transport.release(.resource)
    for task in first { #expect(await task.value == nil) }
    #expect(await last.value == .timedOut)
    #expect(rig.transport.count(.resource) == Limit.callsPerHolder)
  }

  @BrokerActor private final class Granted {
    var places: [(holder: Holder, place: ProviderCallLimiter.Permit)] = []
  }

  @Test("A place that becomes free goes to the next in turn, not to those again who were first")
  @BrokerActor func turns() async throws {
    let rig = try await rig()
    let places = ProviderCallLimiter(rig.broker.runtime.waiters)
    let name = ProviderName(rawValue: "example")!
    let end = rig.broker.runtime.clock.uptime + .seconds(60)
    var held: [ProviderCallLimiter.Permit] = []
    for user in 1...4 as ClosedRange<UInt32> {
      for _ in 0..<Limit.callsPerHolder { held.append(try await places.acquire(name, for: .user(user), until: end)) }
    }
    let granted = Granted()
    var tasks: [Task<Void, any Error>] = []
    for user in 1...5 as ClosedRange<UInt32> {
      for _ in 0..<3 {
        tasks.append(
          Task { granted.places.append((.user(user), try await places.acquire(name, for: .user(user), until: end))) })
        await settle()
      }
    }
    for _ in 0..<2 {
      held.removeFirst().release()
      await settle()
    }
    #expect(granted.places.map(\.holder) == [.user(1), .user(5)])
    for place in held { place.release() }
    for _ in 0..<8 {
      for (_, place) in granted.places { place.release() }
      await settle()
    }
    for task in tasks { try await task.value }
  }
}
