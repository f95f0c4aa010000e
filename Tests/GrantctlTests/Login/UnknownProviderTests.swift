import BrokerAPI
import Testing

@testable import grantctl

@Suite("A login at an unknown provider") struct UnknownProviderTests {
  private static func replies(_ providers: [String]) -> [String: ScriptedBroker.Reply] {
    let work = TableTests.account("work", .ok)
    return [
      "login.start": { params, _ in
        .failure(RPCError(.unknownProvider, "no provider \"\(params["provider"]?.string ?? "")\""))
      },
      "provider.list": answer(["providers": JSON(encoding: providers.map { DoctorTests.provider($0) })]),
      "account.list": answer(["accounts": JSON(encoding: [work])]),
      "account.get": { params, _ in
        params["account"] == "work" ? .success(JSON(encoding: work)) : .failure(RPCError(.unknownAccount, "none"))
      },
    ]
  }

  @Test(
    "the names that exist are listed, with the nearest, and nothing is asked",
    arguments: [
      (["nosuch"], "no provider and no account is called nosuch", nil),
      (["gogle"], "no provider and no account is called gogle", "grantctl login google"),
      (["gogle", "mail"], "no provider and no account is called gogle", "grantctl login google mail"),
      (["lst"], "no provider and no account is called lst", "grantctl login list"),
      (["wrok"], "no provider and no account is called wrok", "grantctl login google work"),
      (["gitlob"], "no provider and no account is called gitlob", "grantctl setup gitlab"),
    ] as [([String], String, String?)])
  func names(words: [String], message: String, meant: String?) async throws {
    try await ScriptedBroker.with(Self.replies(["google", "demo"])) { broker, _ async throws in
      let recorder = Recorder()
      let status = try await broker.run(["login"] + words, recorder) { ($0.isInTTY, $0.canAsk) = (true, true) }
      #expect(status == .unknownName)
      #expect(
        recorder.err
          == "grantctl: \(message)\n" + (meant.map { "  Did you mean `\($0)`?\n" } ?? "")
          + "  Providers: google, demo. `grantctl list` prints the accounts.\n  `grantctl setup` adds a provider.\n")
    }
  }

  @Test("an account's name is completed by its provider")
  func account() async throws {
    try await ScriptedBroker.with(Self.replies(["google"])) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "work"], recorder) == .unknownName)
      #expect(
        recorder.err == """
          grantctl: work is an account at provider google, not a provider
            Sign in to it again with `grantctl login google work`.

          """)
    }
  }

  @Test(
    "a command about an account names the one that was meant",
    arguments: [(["show", "wrok"], true), (["show", "other"], false), (["show", "wrok", "--json"], false)])
  func meantAccount(words: [String], isNamed: Bool) async throws {
    try await ScriptedBroker.with(Self.replies([])) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(words, recorder) == .unknownName)
      #expect(recorder.err.contains("Did you mean work?") == isNamed, "\(recorder.err)")
    }
  }

  @Test("configure notes an account that does not exist", arguments: [("wrok", "did you mean work?"), ("work", nil)])
  func configured(account: String, note: String?) async throws {
    try await ScriptedBroker.with(Self.replies([])) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["configure", "git", account, "git.example.com"], recorder) == .success)
      let warning = note.map { "warning: there is no account \(account): \($0)\n" } ?? ""
      #expect(recorder.err.contains("warning: ") == (note != nil) && recorder.err.contains(warning), "\(recorder.err)")
    }
  }

  @Test("without providers the next step is setup")
  func none() async throws {
    try await ScriptedBroker.with(Self.replies([])) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["login", "nosuch"], recorder) == .unknownName)
      #expect(recorder.err.contains("There are no providers yet.") && recorder.err.contains("`grantctl setup` adds"))
    }
  }
}
