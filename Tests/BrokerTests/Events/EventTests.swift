import BrokerAPI
import Grants
import OAuth
import Synchronization
import Testing

@testable import Broker

@Suite(.scheduled) struct EventTests {
  @Test("Events reach those whose rules let them see the account, and only the types asked for")
  func eventsReachThoseWhoseRulesLetThem() async throws {
    let store = try await MemoryStore.expired("work", "home")
    let rules = [
      Rule(name: "a", uid: 1000, gid: nil, accounts: ["work"], access: [.observe]),
      Rule(name: "b", uid: 1001, gid: nil, accounts: ["home"], access: [.observe]),
      Rule(name: "c", uid: 1002, gid: nil, accounts: ["*"], access: [.observe]),
    ]
    let rig = try await Rig(store: store, configuration: .plain(rules: rules))
    let sessions = [1000, 1001, 1002].map { FakeSession(.user($0)) }
    for session in sessions[0..<2] { _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: session) }
    _ = try await rig.call(EventsSubscribe.self, .init(events: ["account.removed"]), on: sessions[2])
    #expect(sessions.allSatisfy { $0.isHeldOpen })
    _ = try await rig.token("work")
    _ = try await rig.call(AccountLogout.self, .init(account: "work"))
    #expect(sessions[0].types == ["token.refreshed", "account.removed"])
    #expect(sessions[1].types == [])
    #expect(sessions[2].types == ["account.removed"])
    for session in sessions {
      for event in session.told {
        let text = String(decoding: event.serialized(), as: UTF8.self)
        #expect(!text.contains("-a2") && !text.contains("-r2"), "an event with a token in it")
      }
    }
  }

  @Test("The login of an event is shown to its user, to privileged callers and to hooks")
  func logins() async throws {
    let rules = [
      Rule(name: "a", uid: 1000, gid: nil, accounts: ["work"], access: [.observe, .login]),
      Rule(name: "b", uid: 1001, gid: nil, accounts: ["*"], access: [.observe, .manage, .login]),
    ]
    let hooks = Told()
    var edges = Broker.Edges()
    edges.onEvent = { event in hooks.ids.withLock { $0.append(event.login_id) } }
    let rig = try await Rig(configuration: .plain(rules: rules), edges: edges)
    let (own, other, root) = (FakeSession(.user(1000)), FakeSession(.user(1001)), FakeSession(.root))
    for session in [own, other, root] { _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: session) }
    let login = try await rig.start(as: .user(1000))
    #expect(await rig.broker.handleCallback(url: login.callback(), from: .user(1000)).kind == .completed)
    for session in [own, other, root] {
      #expect(session.types == ["login.started", "login.completed"])
      let ids = session.told.map { $0["login_id"]?.string }
      #expect(ids.allSatisfy { $0 == (session === other ? nil : login.login_id) })
    }
    #expect(hooks.ids.withLock { $0 } == [login.login_id, login.login_id])
  }

  private final class Told: Sendable {
    let ids = Mutex<[String?]>([])
  }

  @Test("A connection has one subscription, gets an event once, and takes no slots from others")
  func shares() async throws {
    let rules = [Rule(name: "r", uid: nil, gid: 1, accounts: ["*"], access: [.observe])]
    let rig = try await Rig(store: .expired("work"), configuration: .plain(rules: rules))
    let own = FakeSession(.root)
    for events in [["login.started"], ["account.removed"], ["account.removed", "login.started"]] {
      _ = try await rig.call(EventsSubscribe.self, .init(events: events), on: own)
    }
    var sessions = (0..<Limit.subscriptionsPerHolder).map { _ in FakeSession(.user(1000, groups: [1])) }
    for session in sessions { _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: session) }
    let one = FakeSession(.user(1000, groups: [1]))
    #expect(await rig.reason { try await rig.call(EventsSubscribe.self, .init(events: nil), on: one) } == .overloaded)
    _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: FakeSession(.user(1001, groups: [1])))
    // Several users take all that is shared: root has places of its own.
    for uid in 0..<UInt32(Limit.subscriptions) {
      let session = FakeSession(.user(2000 + uid % 8, groups: [1]))
      _ = try? await rig.call(EventsSubscribe.self, .init(events: nil), on: session)
    }
    _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: FakeSession(.root))
    sessions.removeLast().close()
    #expect(await eventually { (try? await rig.call(EventsSubscribe.self, .init(events: nil), on: one)) != nil })
    _ = try await rig.call(AccountLogout.self, .init(account: "work"))
    #expect(await eventually { own.types == ["account.removed"] })
  }

  @Test("A caller without any rule cannot subscribe, and an unknown type is named")
  func aCallerWithoutAnyRuleCannotSubscribe() async throws {
    let rig = try await Rig()
    #expect(
      await rig.reason { try await rig.call(EventsSubscribe.self, .init(events: nil), as: .user(7)) } == .notPermitted)
    await #expect(throws: RPCError.self) { try await rig.call(EventsSubscribe.self, .init(events: ["token.stolen"])) }
  }

  @Test("A connection that ends is forgotten, and so is one that does not read")
  func aConnectionThatEndsIsForgottenAnd() async throws {
    let rig = try await Rig(store: .expired("work"))
    let (closed, stuck) = (FakeSession(.root), FakeSession(.root))
    for session in [closed, stuck] { _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: session) }
    closed.close()
    #expect(await eventually { await rig.broker.runtime.events.count == 1 })
    stuck.close()
    _ = try await rig.token("work")
    #expect(await eventually { await rig.broker.runtime.events.count == 0 })
  }

  @Test("A failure is reported with its next step after it is on disk") func aFailureIsToldWithWhatTo() async throws {
    let rig = try await Rig(store: .expired("work"))
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(events: nil), on: session)
    rig.transport.answer(.token, TokenServer.refused("invalid_grant"))
    rig.store.set(.hangs) { changes in changes.contains { if case .putGrant = $0 { true } else { false } } }
    let caller = Task { await rig.reason { try await rig.token("work") } }
    #expect(await eventually { rig.store.hanging == 1 })
    await settle()
    #expect(session.types == [])
    rig.store.set(.works)
    #expect(await rig.clock.passes { await caller.value } == .loginRequired)
    #expect(await eventually { session.types == ["token.failed", "login.required"] })
    #expect(session.told.last?["hint"]?.string?.contains("grantctl login") == true)
  }
}
