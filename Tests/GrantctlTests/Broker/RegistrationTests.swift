import BrokerAPI
import TestSupport
import Testing

@testable import grantctl

/// Logins for which the provider requires attributes of the user.
@Suite struct RegistrationTests {
  static let registration: JSON = [
    "login_id": "L1", "state": "action_required",
    "action": [
      "kind": "registration", "message": "the provider wants to know more of ada@example.com",
      "identifier": "ada@example.com",
    ],
  ]

  @Test("attributes are given ahead, as texts and as JSON") func attributes() async throws {
    let waiting = LoginActionTests.Waiting([Self.registration])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let arguments = [
        "login", "paper", "--attribute", "first_name=Ada", "--attribute", "age=7", "--attribute-json", "news=true",
        "--attribute-json", #"likes=["a"]"#,
      ]
      #expect(try await broker.run(arguments, Recorder()) == .success)
      let sent = waiting.sent.first?["attributes"]
      #expect(sent?["first_name"] == "Ada" && sent?["age"] == "7" && sent?["news"] == true && sent?["likes"] == ["a"])
    }
  }

  static let rejected = RPCError(
    .registrationRejected, "the provider refused the registration", detail: "bad_request",
    fields: ["first_name": ["is too short"], "age": ["is no number", "is missing\u{1B}"]])

  @Test("the user is asked for attributes, and again for refused ones") func asked() async throws {
    let waiting = LoginActionTests.Waiting([Self.registration], errors: [Self.rejected])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      async let status = broker.run(["login", "paper"], recorder) { $0.canAsk = true }
      #expect(await eventually { recorder.err.hasSuffix("name=value (an empty line sends): ") })
      #expect(recorder.err.contains("The provider wants to know more of ada@example.com.\n"))
      for line in ["rubbish", " =x", "first_name = A ", "town=Köln", ""] { recorder.type(line) }
      #expect(await eventually { recorder.err.hasSuffix("age: ") })
      #expect(recorder.err.contains("Write it as name=value."))
      #expect(
        recorder.err.contains(
          """
          the provider refused the registration
          bad_request
          age: is no number; is missing\\u{1B}
          first_name: is too short

          """))
      for line in ["7", "Ada", ""] { recorder.type(line) }
      #expect(try await status == .success)
      #expect(recorder.err.contains("first_name [A]: ") && !broker.methods.contains("login.cancel"))
      #expect(waiting.sent.map { $0["attributes"]?["first_name"] } == ["A", "Ada"])
      #expect(waiting.sent.last?["attributes"]?["age"] == "7" && waiting.sent.last?["attributes"]?["town"] == "Köln")
    }
  }

  @Test(
    "a refusal without a terminal is reported, and the login continues waiting", arguments: [true, false])
  func refusedUnattended(isGiven: Bool) async throws {
    let waiting = LoginActionTests.Waiting([Self.registration], errors: [Self.rejected])
    try await ScriptedBroker.with(waiting.replies) { broker, _ async throws in
      let recorder = Recorder()
      let options = isGiven ? ["--attribute", "first_name=A"] : []
      #expect(try await broker.run(["login", "paper"] + options, recorder) == .actionRequired)
      #expect(recorder.err.contains("  first_name: is too short\n") == isGiven)
      #expect(
        recorder.err.hasSuffix(
          "  The login waits on: `grantctl login continue L1 --attribute NAME=VALUE`, once for each attribute.\n"))
      #expect(!broker.methods.contains("login.cancel"))
    }
  }
}
