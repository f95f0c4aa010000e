import Grants
import OAuth
import Testing

/// Tokens for fewer scopes or another resource: what they do to each other, and to the grant.
@Suite struct GrantNarrowedTests {
  private let mail = SavedToken.Key(scope: "mail")
  private let files = SavedToken.Key(resource: "https://files.example/")

  private static let invalidScope = ProviderFailure.misconfigured(
    message: "invalid_scope", OAuthError(code: .invalidScope))
  private static let invalidTarget = ProviderFailure.misconfigured(
    message: "invalid_target", OAuthError(code: .invalidTarget))

  /// A whole refresh of one of the grant's tokens.
  private func refresh(
    _ grant: inout Grant, _ key: SavedToken.Key, at seconds: Double, refresh: String? = nil, lifetime: Int? = 3600,
    scope: String? = nil
  ) {
    grant.wants(key)
    let attempt = grant.begun(at: at(seconds))
    #expect(attempt.key == key)
    let more = scope.map { ["scope": "\"\($0)\""] } ?? [:]
    let answer = issued(access: "access-at-\(seconds)", refresh: refresh, lifetime: lifetime, more: more)
    _ = grant.answered(attempt, answer, rotation: .strict, refreshTokenLifetime: nil)
    let isTaken = grant.committed(attempt, jitter: 0)
    #expect(isTaken)
  }

  private func served(_ grant: Grant, _ key: SavedToken.Key, at seconds: Double) -> String? {
    guard case .token(let token) = grant.answer(minimumTTL: nil, at: at(seconds), policy: steady, key: key) else {
      return nil
    }
    return token.accessToken.exposed
  }

  @Test("A key is the same however its scopes are written")
  func keys() {
    let key = SavedToken.Key(scopes: ["mail", "files", "mail"], resource: nil)
    #expect(key == SavedToken.Key(scopes: ["files", "mail"], resource: nil))
    #expect(key.scope == "files mail" && key.scopes == ["files", "mail"] && key.isNarrowed)
    #expect(!SavedToken.Key(scopes: [], resource: nil).isNarrowed)
    #expect(!SavedToken.Key(scopes: nil, resource: nil).isNarrowed)
    #expect(SavedToken.Key(scopes: nil, resource: "https://files.example/") == files)
  }

  @Test("53. A narrowed token overwrites neither the login's own nor another, and its rotation is the grant's")
  func apart() {
    var grant = grant()
    refresh(&grant, mail, at: 10, refresh: "refresh-2", scope: "mail")
    refresh(&grant, files, at: 20, refresh: "refresh-3", scope: "openid")
    #expect(served(grant, SavedToken.Key(), at: 30) == "access-1")
    #expect(served(grant, mail, at: 30) == "access-at-10.0")
    #expect(served(grant, files, at: 30) == "access-at-20.0")
    #expect(grant.saved.refreshToken == Secret("refresh-3") && grant.saved.generation == 3)
    #expect(grant.token?.generation == 1)
    #expect(grant.saved.grantedScopes == ["openid", "mail"])
    #expect(grant.token(for: mail)?.scopes == ["mail"] && grant.token(for: files)?.scopes == ["openid"])
    #expect(grant.livingTokens.map(\.generation).sorted() == [1, 2, 3])
    refresh(&grant, SavedToken.Key(), at: 40)
    #expect(served(grant, SavedToken.Key(), at: 50) == "access-at-40.0")
    #expect(served(grant, mail, at: 50) == "access-at-10.0")
    #expect(grant.token?.generation == 4)
  }

  @Test("If the answer names no scope, the token has the requested ones")
  func scopes() {
    var grant = grant()
    refresh(&grant, mail, at: 10)
    refresh(&grant, files, at: 10)
    #expect(grant.token(for: mail)?.scopes == ["mail"])
    #expect(grant.token(for: files)?.scopes == ["openid", "mail"])
  }

  @Test("Other members of a narrowed answer do not change the grant")
  func extra() {
    var grant = grant()
    grant.wants(mail)
    let attempt = grant.begun(at: at(10))
    let answer = issued(more: ["scope": "\"mail\"", "instance_url": "\"https://elsewhere.example\""])
    _ = grant.answered(attempt, answer, rotation: .strict, refreshTokenLifetime: nil)
    let isTaken = grant.committed(attempt, jitter: 0)
    #expect(isTaken)
    #expect(grant.saved.extra == nil && grant.saved.grantedScopes == ["openid", "mail"])
  }

  @Test("The account's own token first, then callers in order, each request once, then due tokens")
  func order() {
    var grant = grant()
    for key in [files, mail, files, SavedToken.Key(), mail] { grant.wants(key) }
    var order: [SavedToken.Key] = []
    for second in 1...4 {
      let attempt = grant.begun(at: at(Double(second)))
      order.append(attempt.key)
      _ = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil)
      _ = grant.committed(attempt, jitter: 0)
    }
    #expect(order == [SavedToken.Key(), files, mail, SavedToken.Key()])
  }

  @Test("Requests are limited like tokens, and a refused caller repeats its request")
  func wishes() {
    var grant = grant()
    for number in 0..<200 { grant.wants(SavedToken.Key(scope: "scope-\(number)")) }
    var asked = 0
    while asked < 200 {
      let attempt = grant.begun(at: at(10))
      grant.withdrawn(attempt)
      guard attempt.key.isNarrowed else { break }
      asked += 1
    }
    #expect((Grant.Narrowed.most...Grant.Narrowed.most + 1).contains(asked))
  }

  @Test("Only the account's own token says who signed in")
  func identity() {
    let person = Identity(subject: "alice", email: "alice@example.com")
    for (key, isTaken) in [(mail, false), (files, false), (SavedToken.Key(), true)] {
      var saved = savedGrant()
      saved.idToken = Secret("id-1")
      saved.identity = person
      var grant = grant(saved)
      grant.wants(key)
      let attempt = grant.begun(at: at(10))
      var answer = issued()
      answer.identity = Identity(subject: "alice")
      answer.idToken = Secret("id-2")
      _ = grant.answered(attempt, answer, rotation: .strict, refreshTokenLifetime: nil)
      _ = grant.committed(attempt, jitter: 0)
      #expect(grant.saved.identity == (isTaken ? Identity(subject: "alice") : person))
      #expect(grant.saved.idToken == Secret(isTaken ? "id-2" : "id-1"))
    }
  }

  @Test("An unused narrowed token is not refreshed; a used one is, once")
  func due() {
    var grant = grant(savedGrant(), savedToken(lifetime: 100_000))
    refresh(&grant, mail, at: 0, lifetime: 1000)
    let own = grant.nextMoment(policy: steady, at: at(0))
    #expect((own ?? at(0)) > at(50_000))
    // Only the first who takes it changes what is due.
    let changes = [mail, mail, files, SavedToken.Key()].map { grant.served($0) }
    #expect(changes == [true, false, false, false])
    let moment = grant.nextMoment(policy: steady, at: at(0)) ?? at(0)
    #expect(moment > at(500) && moment < at(1000))
    let due = grant.due(at: moment, policy: steady)
    #expect(due == .refresh)
    guard case .begun(let attempt, _) = grant.beginRefresh(at: moment, policy: steady) else {
      Issue.record("no refresh began")
      return
    }
    #expect(attempt.key == mail)
    _ = grant.answered(attempt, issued(access: "next", lifetime: 1000), rotation: .strict, refreshTokenLifetime: nil)
    _ = grant.committed(attempt, jitter: 0)
    #expect(grant.nextMoment(policy: steady, at: moment) == own)
  }

  @Test("The login's own token goes first where both are due")
  func ownFirst() {
    var grant = grant(savedGrant(), savedToken(lifetime: 1000))
    refresh(&grant, mail, at: 0, lifetime: 1000)
    _ = grant.served(mail)
    guard case .begun(let attempt, _) = grant.beginRefresh(at: at(2000), policy: steady) else {
      Issue.record("no refresh began")
      return
    }
    #expect(attempt.key == SavedToken.Key())
  }

  @Test("A refused request is remembered for a quarter of an hour, and changes nothing else")
  func refusal() {
    for failure in [Self.invalidScope, Self.invalidTarget] {
      var grant = grant()
      let before = grant.saved
      grant.wants(mail)
      let outcome = grant.failed(failure, at: at(10))
      #expect(outcome == .refused(before) && grant.saved == before && grant.intent == nil && grant.phase == .idle)
      func isRefused(_ key: SavedToken.Key, at seconds: Double) -> Bool {
        if case .refused = grant.answer(minimumTTL: nil, at: at(seconds), policy: steady, key: key) {
          true
        } else {
          false
        }
      }
      #expect(isRefused(mail, at: 10) && isRefused(mail, at: 909))
      #expect(!isRefused(mail, at: 911) && !isRefused(files, at: 20))
      // The clock was set back: from here, it would last longer than it may.
      #expect(!isRefused(mail, at: -1000))
      #expect(served(grant, SavedToken.Key(), at: 20) == "access-1")
      #expect(grant.nextMoment(policy: steady, at: at(20)).map { $0 > at(20) } == true)
    }
  }

  @Test("A refused wish while a token of it is still valid hands that one out")
  func refusalOfAnOldOne() {
    var grant = grant()
    refresh(&grant, mail, at: 0, lifetime: 100)
    grant.wants(mail)
    _ = grant.failed(Self.invalidScope, at: at(90))
    #expect(served(grant, mail, at: 95) == "access-at-0.0")
    #expect(served(grant, mail, at: 101) == nil)
  }

  @Test("The same answer for the account's own token concerns the grant, as does any other error for a narrowed one")
  func otherFailures() {
    var grant = grant()
    if case .misconfigured = grant.failed(Self.invalidScope, at: at(10)) {} else { Issue.record("not misconfigured") }
    grant = Grant(saved: savedGrant(), token: savedToken(), jitter: 0)
    for failure in GrantEventTests.failures {
      grant = Grant(saved: savedGrant(), token: savedToken(), jitter: 0)
      grant.wants(mail)
      let isRefusal =
        switch failure {
        case .ended(.refused, _, _), .requestRefused: true
        default: false
        }
      if case .refused = grant.failed(failure, at: at(10)) {
        #expect(isRefusal, "\(failure)")
        #expect(grant.saved.standing == .good)
      } else {
        #expect(!isRefusal, "\(failure)")
      }
    }
  }

  @Test(
    "If a narrowed token is refused like an ended grant, the account's own refresh decides",
    arguments: [true, false])
  func doubted(isDead: Bool) {
    var grant = grant()
    grant.wants(mail)
    guard case .refused = grant.failed(invalidGrant, at: at(10)) else {
      Issue.record("the grant ended")
      return
    }
    #expect(grant.nextMoment(policy: steady, at: at(10)) == at(10))
    #expect(grant.answer(minimumTTL: nil, at: at(10), policy: steady, key: mail) == .refresh)
    grant.wants(mail)
    let proof = grant.begun(at: at(11))
    #expect(!proof.key.isNarrowed)
    if isDead {
      if case .ended = grant.failed(proof, invalidGrant, at: at(12), policy: steady, jitter: 0) {
      } else {
        Issue.record("not ended")
      }
    } else {
      _ = grant.answered(proof, issued(), rotation: .strict, refreshTokenLifetime: nil)
      _ = grant.committed(proof, jitter: 0)
      if case .refused = grant.answer(minimumTTL: nil, at: at(12), policy: steady, key: mail) {
      } else {
        Issue.record("not refused")
      }
      #expect(grant.nextMoment(policy: steady, at: at(12)) != at(12))
      let next = grant.begun(at: at(13))
      #expect(!next.key.isNarrowed)
    }
  }

  @Test("Askers take turns, however many tokens one of them wants; one with many makes room itself")
  func turns() {
    var grant = grant()
    for number in 0..<50 { grant.wants(SavedToken.Key(scope: "s\(number)"), by: "many", until: at(5000)) }
    grant.wants(files, by: "few", until: at(5000))
    grant.wants(mail, by: "gone", until: at(5))
    var order: [SavedToken.Key] = []
    for _ in 0..<2 {
      let attempt = grant.begun(at: at(10))
      order.append(attempt.key)
      _ = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil)
      _ = grant.committed(attempt, jitter: 0)
    }
    #expect(order == [SavedToken.Key(scope: "s0"), files])
    for number in 0..<50 {
      grant.wants(SavedToken.Key(scope: "t\(number)"), by: "many", until: at(5000))
      let attempt = grant.begun(at: at(20))
      _ = grant.answered(attempt, issued(), rotation: .strict, refreshTokenLifetime: nil)
      _ = grant.committed(attempt, jitter: 0)
    }
    #expect(grant.token(for: files) != nil && grant.narrowed.count == Grant.Narrowed.most)
    grant.wants(mail, by: "few", until: at(5000))
    grant.unwants(mail, by: "few")
    #expect(!grant.isWanted(mail, by: "few"))
  }

  @Test("A refusal after an outage does not end the outage's wait, and loses no lost rotation")
  func refusalWhileFailing() {
    var grant = grant()
    _ = grant.failed(.lost(message: ""), at: at(4000))
    let intent = grant.intent
    #expect(intent?.attempts == 1)
    grant.wants(mail)
    _ = grant.failed(Self.invalidScope, at: at(4700))
    #expect(grant.intent == intent, "what became of the earlier request is as open as before")
    if case .ended(_, let reason) = grant.failed(invalidGrant, at: at(4800)) {
      #expect(reason == .lostRotation)
    } else {
      Issue.record("not ended")
    }
  }

  @Test("A rejected narrowed token is dropped without the others; old generations are stale")
  func rejected() {
    var grant = grant()
    refresh(&grant, mail, at: 10)
    refresh(&grant, files, at: 20)
    let first = grant.rejected(generation: 2, at: at(30))
    #expect(first == .refreshNarrowed(mail))
    #expect(served(grant, mail, at: 30) == nil && grant.livingTokens.map(\.generation).sorted() == [1, 3])
    let again = grant.rejected(generation: 2, at: at(30))
    #expect(again == .stale)
    #expect(!grant.isTokenRejected)
    let own = grant.rejected(generation: 1, at: at(30))
    #expect(own == .refresh)
    #expect(grant.isTokenRejected && served(grant, SavedToken.Key(), at: 30) == nil)
    #expect(served(grant, files, at: 30) == "access-at-20.0")
    #expect(grant.livingTokens.map(\.generation) == [3])
    // The next of a narrowed one does not bring the rejected one back.
    refresh(&grant, mail, at: 40)
    #expect(served(grant, SavedToken.Key(), at: 50) == nil)
    refresh(&grant, SavedToken.Key(), at: 60)
    #expect(served(grant, SavedToken.Key(), at: 70) == "access-at-60.0")
  }

  @Test("Dropped first: refusals, then the token that ends first; one without an end is last")
  func room() {
    var grant = grant(savedGrant(), savedToken(lifetime: nil))
    let endless = SavedToken.Key(scope: "endless")
    refresh(&grant, endless, at: 0, lifetime: nil)
    for number in 1..<Grant.Narrowed.most - 1 {
      refresh(&grant, SavedToken.Key(scope: "s\(number)"), at: 1, lifetime: 10_000 + number)
    }
    grant.wants(mail)
    _ = grant.failed(Self.invalidScope, at: at(2))
    #expect(grant.narrowed.count == Grant.Narrowed.most)
    refresh(&grant, SavedToken.Key(scope: "one more"), at: 3)
    #expect(grant.narrowed.count == Grant.Narrowed.most && grant.narrowed[mail] == nil)
    refresh(&grant, SavedToken.Key(scope: "and one"), at: 4, lifetime: 50_000)
    // "one more" ends first.
    #expect(grant.narrowed[SavedToken.Key(scope: "one more")] == nil)
    #expect(grant.narrowed[endless] != nil && grant.narrowed[SavedToken.Key(scope: "s1")] != nil)
    #expect(grant.narrowed.count == Grant.Narrowed.most)
  }

  @Test("From a disk that holds more than are kept, so many are taken")
  func loaded() {
    let tokens = (0..<100).map { number in
      SavedToken(
        account: account, key: SavedToken.Key(scope: "s\(number)"), accessToken: Secret("a"), type: "Bearer",
        scopes: [], generation: Int64(number), issuedAt: start, expiresAt: at(100))
    }
    let grant = Grant(saved: savedGrant(generation: 200), token: savedToken(), narrowed: tokens, jitter: 0)
    #expect(grant.narrowed.count == Grant.Narrowed.most)
  }

  @Test("A login, and a sign-out at the provider, end them all")
  func replaced() {
    var grant = grant()
    refresh(&grant, mail, at: 10)
    grant.wants(files)
    grant.replaced(
      by: savedGrant(refreshToken: "refresh-9", generation: 9), token: savedToken(generation: 9), jitter: 0)
    #expect(grant.narrowed.isEmpty && served(grant, mail, at: 20) == nil)
    // Earlier requests belong to no caller any more.
    let next = grant.begun(at: at(20))
    #expect(next.key == SavedToken.Key())
    grant = Grant(saved: savedGrant(), token: savedToken(), jitter: 0)
    refresh(&grant, mail, at: 10)
    grant.signedOut(FailureRecord(message: "signed out", at: at(20)))
    #expect(grant.livingTokens.isEmpty && served(grant, mail, at: 30) == nil)
    #expect(served(grant, SavedToken.Key(), at: 30) == nil)
  }

  @Test("The clock is set: tokens of this run keep their lifetime, stored ones get the shorter one")
  func clock() {
    var grant = grant(savedGrant(), savedToken(lifetime: 100_000))
    refresh(&grant, mail, at: 0, lifetime: 1000)
    let moved = grant.clockStepped(by: .seconds(5000))
    #expect(moved)
    #expect(served(grant, mail, at: 5500) == "access-at-0.0" && served(grant, mail, at: 6001) == nil)
    var token = savedToken(lifetime: 1000, generation: 1)
    token.key = mail
    var loaded = Grant(saved: savedGrant(generation: 2), token: nil, narrowed: [token], jitter: 0)
    let ends = [Duration.seconds(5000), .seconds(-500)].map { step in
      _ = loaded.clockStepped(by: step)
      return loaded.token(for: mail)?.expiresAt
    }
    #expect(ends == [at(1000), at(500)])
  }
}
