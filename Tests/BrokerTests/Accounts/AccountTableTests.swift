import BrokerAPI
import Grants
import OAuth
import Testing

@testable import Broker

@Suite(.scheduled) struct SortedNamesTests {
  @Test("Names stay sorted and unique after additions and removals", arguments: [1, 2, 3] as [UInt64])
  func model(_ seed: UInt64) {
    var random = Numbers(seed)
    var names = SortedNames()
    var model: Set<AccountName> = []
    for step in 0..<20_000 {
      // Grows first, then shrinks to nothing.
      let name = account("a\(random.next() % 6000)")
      if step < 12_000 ? random.next() % 4 != 0 : random.next() % 8 == 0 {
        #expect(names.insert(name) == model.insert(name).inserted)
      } else {
        names.remove(name)
        model.remove(name)
      }
      #expect(names.count == model.count)
    }
    #expect(Array(names) == model.sorted())
    for name in model { names.remove(name) }
    #expect(names.isEmpty && Array(names).isEmpty && names.after(nil, most: 5).isEmpty)
  }

  @Test("Pages are contiguous, even if the name before a page was removed", arguments: [1, 7, 1024, 5000])
  func pages(_ size: Int) {
    var names = SortedNames()
    let all = (0..<5000).map { account("u\($0 + 10_000)") }
    for name in all.reversed() { names.insert(name) }
    var seen: [AccountName] = []
    var page = names.after(nil, most: size)
    while let last = page.last {
      seen += page
      names.remove(last)
      page = names.after(last, most: size)
    }
    #expect(seen == all)
  }

  @Test("A copy is not changed with the original")
  func copy() {
    var names = SortedNames()
    for number in 0..<3000 { names.insert(account("u\(number)")) }
    let copy = names
    for number in 0..<3000 { names.remove(account("u\(number)")) }
    #expect(copy.count == 3000 && Array(copy).count == 3000)
  }
}

@Suite("An account that is packed", .scheduled) struct PackedAccountTests {
  /// Packs each account as soon as another is used.
  private func rig(_ store: MemoryStore, names: [String] = ["bank", "home", "work"]) async throws -> Rig {
    for name in names { try await store.signIn(name) }
    return try await Rig(store: store, wholeAccounts: 1)
  }

  @Test("packs and unpacks without loss: refused tokens, narrowed tokens, learned lifetimes")
  func same() async throws {
    let rig = try await rig(MemoryStore())
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"n1","token_type":"Bearer","expires_in":3600,"refresh_token":"r2"}"#)
    }
    _ = try await rig.call(TokenReportRejected.self, .init(account: "work", generation: 1))
    _ = try await rig.token("home")
    _ = try await rig.token("bank")
    #expect(try await rig.token("work").access_token == "n1")
    #expect(rig.store.grant("work")?.refreshToken == Secret("r2"))
  }

  @Test("goes with the clock as if it had been whole, at the next look")
  func clock() async throws {
    let rig = try await rig(MemoryStore())
    rig.transport.answer(.token) { _ in
      reply(#"{"access_token":"new","token_type":"Bearer","expires_in":3600,"refresh_token":"r2"}"#)
    }
    // Stamped in this run: it keeps the life that it has.
    _ = try await rig.token("work", minTTL: 3601)
    let before = try #require(try await rig.token("work").expires_at)
    _ = try await rig.token("home")
    rig.clock.step(.seconds(7200))
    _ = await rig.broker.tick()
    #expect(try await rig.token("work").expires_at == before + 7200)
  }

  @Test("loads in time, even if many accounts change during loading")
  @BrokerActor func clockOfWhole() throws {
    let start = ManualClock.start
    func grant(_ name: String, isBusy: Bool) -> Grant {
      let saved = SavedGrant(
        account: account(name), provider: provider("example"), identity: nil, requestedScopes: [], grantedScopes: [],
        refreshToken: Secret("r"), generation: 1, createdAt: start, loggedInAt: start)
      let token = SavedToken(
        account: account(name), accessToken: Secret("a"), type: "Bearer", scopes: [], generation: 1, issuedAt: start,
        expiresAt: start + .seconds(60))
      var grant = Grant(saved: saved, token: token, jitter: 0)
      grant.isOfThisRun()
      if isBusy { _ = grant.beginRefresh(at: start, policy: RefreshPolicy()) }
      return grant
    }
    let table = AccountTable(wholeAccounts: 1) { UnpackedAccount($0) }
    let names = (0..<8).map { "u\($0)" }
    for (number, name) in names.enumerated() { table[account(name)] = grant(name, isBusy: number % 3 == 0) }
    var random = Numbers(7)
    for step in 1...200 {
      for _ in 0..<3 { _ = table[account(names[Int(random.next() % 8)])] }
      table.clockStepped(by: .seconds(10))
      let name = names[Int(random.next() % 8)]
      #expect(table.peek(account(name), .facts)?.token?.expiresAt == start + .seconds(60 + 10 * Int64(step)), "\(name)")
      #expect(table[account(name)]?.token?.expiresAt == start + .seconds(60 + 10 * Int64(step)), "\(name)")
    }
  }

  @Test("that cannot be opened is reported and harms no other account; the row stays until the next login")
  func damaged() async throws {
    let store = MemoryStore()
    for name in ["bank", "home", "work"] { try await store.signIn(name) }
    store.damages("work")
    let rig = try await Rig(store: store, wholeAccounts: 1, isAsked: false)
    let before = store.log.count
    let session = FakeSession(.root)
    _ = try await rig.call(EventsSubscribe.self, .init(), on: session)
    let verifying = Task { await rig.broker.verify() }
    // It takes less time than the life of a token.
    #expect(await rig.clock.reaches(by: .seconds(1), steps: 600) { !session.types.isEmpty })
    verifying.cancel()
    #expect(session.types == ["login.required"])
    #expect(await rig.reason { try await rig.token("work") } == .loginRequired)
    #expect(try await rig.token("home").access_token == "home-a1")
    let error = try #require(try await rig.view("work").last_error)
    #expect(error.message.contains("cannot be read") && error.hint.contains("grantctl login example work"))
    #expect(try await rig.view("work").state == .loginRequired)
    // It stays unreadable when it is packed again, and when the database is rebuilt.
    #expect(try await rig.token("bank").access_token == "bank-a1")
    #expect(try await rig.call(AccountList.self, .init()).accounts.map(\.state) == [.ok, .ok, .loginRequired])
    let again = try #require(await rig.broker.wholeState().accounts.first { $0.account == account("work") })
    #expect(throws: StoreError.self) { try again.read(.whole) }
    #expect(session.types == ["login.required"])
    // No commit changes the refresh token on disk.
    await { @BrokerActor in rig.broker.accounts[account("work")]?.announced(at: rig.clock.now) }()
    await rig.broker.accounts.saveStanding(of: account("work"), "a test")
    await rig.broker.journal.keep(account("work"))
    await rig.broker.journal.saveUnsaved()
    #expect(store.grant("work")?.refreshToken == Secret("work-r1") && store.log.count == before)
  }

  @Test("is listed page by page, in the order of the names, as far as the caller may see")
  func list() async throws {
    let store = MemoryStore()
    for number in 0..<700 { try await store.signIn("u\(1000 + number)") }
    let rule = Rule(name: "a", uid: 1000, gid: nil, accounts: ["u15*"], access: [.observe])
    let rig = try await Rig(store: store, configuration: .plain(rules: [rule]), wholeAccounts: 1)
    var names: [String] = []
    var after: String?
    var pages = 0
    repeat {
      let page = try await rig.call(AccountList.self, .init(after: after, limit: 300))
      names += page.accounts.map(\.account)
      after = page.next
      pages += 1
    } while after != nil
    #expect(names == (0..<700).map { "u\(1000 + $0)" } && pages == 3)
    let seen = try await rig.call(AccountList.self, .init(limit: 100), as: .user(1000))
    #expect(seen.accounts.count == 100 && seen.next == nil)
    #expect(seen.accounts.first?.account == "u1500")
    await #expect(throws: RPCError.self) { try await rig.call(AccountList.self, .init(limit: 0)) }
  }
}

private struct Numbers {
  private var state: UInt64
  init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1 }
  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return state >> 33
  }
}
