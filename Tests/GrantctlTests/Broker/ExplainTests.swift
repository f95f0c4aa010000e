import ArgumentParser
import BrokerAPI
import Synchronization
import Testing

@testable import grantctl

@Suite("grantctl explain") struct ExplainTests {
  @Test("A unit runs as its user, with the user's groups and the unit's")
  func unit() throws {
    func shown(_ values: [String: String]) -> RunningAs? { RunningAs(shown: values) }
    let plain = try #require(shown(["User": "", "UID": "[not set]", "GID": "[not set]", "DynamicUser": "no"]))
    #expect(plain.uid == 0 && plain.gid == 0 && plain.groups == [])
    // Debian's daemon is group 1.
    let added = try #require(shown(["User": "root", "SupplementaryGroups": "daemon 4242"]))
    #expect(added.uid == 0 && added.gid == 0 && Set(added.groups ?? []).isSuperset(of: [1, 4242]))
    #expect(shown(["User": "0", "Group": "daemon"])?.gid == 1)
    let dynamic = ["DynamicUser": "yes", "User": "", "SupplementaryGroups": "daemon"]
    #expect(shown(dynamic) == nil)
    let running = try #require(shown(dynamic.merging(["UID": "61234", "GID": "61234"]) { $1 }))
    #expect(running.uid == 61234 && running.gid == 61234 && running.groups == [1])
    #expect(shown(["User": "root", "SupplementaryGroups": "no-such-group-of-anybody"])?.groups == nil)
  }

  @Test(
    "A user has the groups of a login; an unknown user is reported", arguments: [true, false])
  func user(isKnown: Bool) async throws {
    let uid: UInt32 = isKnown ? 0 : 4_200_000_000
    let asked = Mutex<JSON?>(nil)
    try await ScriptedBroker.with([
      "policy.explain": { params, _ in
        asked.withLock { $0 = $0 ?? params["caller"] }
        return .success(["allowed": false, "why": "no rule"])
      }
    ]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["explain", "work", "--uid", "\(uid)"], recorder) == .notPermitted)
      let caller = asked.withLock { $0 }
      #expect(caller?["uid"]?.integer == Int64(uid))
      #expect((caller?["groups"]?.array?.isEmpty == false) == isKnown)
      #expect(recorder.err.contains("The groups of uid 4200000000 are not known here") == !isKnown)
    }
  }

  @Test("A unit is named as systemctl takes it, and a user by name or number")
  func names() throws {
    let table = [
      ("mail-sync", "mail-sync.service"), ("mail-sync.service", "mail-sync.service"), ("run-1.scope", "run-1.scope"),
      ("feed@1", "feed@1.service"), ("a.b", "a.b.service"), ("", ""),
    ]
    for (text, name) in table { #expect(RunningAs.unitName(text) == name) }
    #expect(try RunningAs.uid(named: "root") == 0)
    #expect(try RunningAs.uid(named: "4711") == 4711)
    for command in [["explain", "work"], ["audit"]] {
      let error = #expect(throws: (any Error).self) {
        try Grantctl.parseAsRoot(command + ["--uid", "nobody-is-called-so"])
      }
      #expect(error.map { Grantctl.message(for: $0) }?.contains("this machine has no user") == true)
    }
  }

  @Test("A unit of the caller's manager needs no user; a unit of another user, by name, has that user")
  func userUnit() async throws {
    try await ScriptedBroker.with(["policy.explain": answer(["allowed": true, "why": "rule feed allows it"])]) {
      broker, _ async throws in
      let (mine, theirs) = (Recorder(), Recorder())
      #expect(try await broker.run(["explain", "work", "--user-unit", "feed@1"], mine) == .success)
      let caller = broker.params(of: "policy.explain")?["caller"]
      // The last question is whether the account may be seen.
      #expect(caller == nil && broker.params(of: "account.get") == ["account": "work"])
      #expect(mine.out == "allowed: rule feed allows it\n")
      #expect(
        try await broker.run(["explain", "work", "--user-unit", "feed@1", "--uid", "root", "--json"], theirs)
          == .success)
      let other = broker.params(of: "policy.explain")?["caller"]
      #expect(other?["uid"] == 0 && other?["user_unit"] == "feed@1.service")
      #expect(try await broker.run(["explain", "work", "--user-unit", "feed@1", "--json"], mine) == .success)
      let own = broker.params(of: "policy.explain")?["caller"]
      #expect(own?["uid"] == 1000 && own?["user_unit"] == "feed@1.service" && own?["unit"] == nil)
    }
  }

  @Test("A missing account is reported to permitted callers, and the verdict is unchanged", arguments: [true, false])
  func unknownAccount(maySee: Bool) async throws {
    try await ScriptedBroker.with([
      "policy.explain": { params, _ in
        let isLook = params["method"] == "account.get"
        return .success(["allowed": .bool(!isLook || maySee), "why": "it is the owner of this instance"])
      },
      "account.get": refuse(RPCError(.unknownAccount, "no account wrok")),
    ]) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["explain", "wrok"], recorder) == .success)
      #expect(recorder.out == "allowed: it is the owner of this instance\n")
      #expect(recorder.err == (maySee ? "There is no account wrok: the answer is for one of that name.\n" : ""))
      // What is refused is on record.
      #expect(broker.methods.contains("account.get") == maySee)
    }
  }
}
