import BrokerAPI
import TestSupport
import Testing

@testable import grantctl

@Suite struct LockTests {
  private static let locked = DoctorTests.status {
    $0.state = "locked"
    $0.store = .init(path: "/s", state: "locked", message: nil)
  }

  @Test("the prompt for a new passphrase has its rule") func prompt() async throws {
    let replies = [
      "broker.status": answer(DoctorTests.status()),
      "broker.lock": answer(JSON(encoding: BrokerLock.Result(state: "locked"))),
    ]
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["lock", "--new-passphrase"], recorder) {
        ($0.isInTTY, $0.canAsk) = (true, true)
        $0.hideEcho = { {} }
      }
      let prompt = "New passphrase for the lock, 8 or more ASCII characters (it is not shown): "
      #expect(await eventually { recorder.err == prompt })
      recorder.type("eleven small 7 boats")
      recorder.type("eleven small 7 boats")
      #expect(try await status == .success)
      #expect(broker.params(of: "broker.lock") == ["passphrase": "eleven small 7 boats"])
      #expect(recorder.out == "Locked. Unlock: grantctl unlock\n")
    }
  }

  @Test("a locked broker stays locked; with a passphrase that is a failure")
  func alreadyLocked() async throws {
    try await ScriptedBroker.with(["broker.status": answer(Self.locked)]) { broker, _ async throws in
      let (plain, json) = (Recorder(), Recorder())
      #expect(try await broker.run(["lock"], plain) == .success)
      #expect(plain.out == "Already locked. Unlock: grantctl unlock\n" && plain.err.isEmpty)
      #expect(try await broker.run(["lock", "--json"], json) == .success)
      #expect(json.out == #"{"state":"locked","warnings":[]}"# + "\n")
      for (options, again) in [
        (["--new-passphrase"], "--new-passphrase"), (["--passphrase-file", "/p"], "--passphrase-file FILE"),
      ] {
        let recorder = Recorder()
        #expect(try await broker.run(["lock"] + options, recorder) == .temporarilyUnavailable)
        #expect(
          recorder.err == """
            grantctl: the broker is already locked, and its passphrase is unchanged
              Unlock it with `grantctl unlock`. Then `grantctl lock \(again)` changes the passphrase.

            """)
        #expect(recorder.out.isEmpty)
      }
      #expect(!broker.methods.contains("broker.lock"))
    }
  }
}
