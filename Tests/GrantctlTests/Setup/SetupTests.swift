import BrokerAPI
import Foundation
import ProviderTemplates
import TestSupport
import Testing

@testable import grantctl

@Suite struct SetupTests {
  @Test("each template is filled in by setup, or is named as one that is written by hand")
  func coversTemplates() throws {
    let top = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..").standardized
    let files = try FileManager.default.contentsOfDirectory(atPath: top.appending(path: "config/providers.d").path())
    let known = Set(SetupTemplate.all.map(\.name))
    #expect(known.isDisjoint(with: SetupTemplate.writtenByHand))
    #expect(Set(files.map { String($0.dropLast(".toml".count)) }) == known.union(SetupTemplate.writtenByHand))
  }

  @Test("an issuer is accepted as it is pasted")
  func issuers() {
    let table: [(String, String?)] = [
      ("https://login.example.com", "https://login.example.com"), (" login.example.com\n", "https://login.example.com"),
      ("https://login.example.com/.well-known/openid-configuration", "https://login.example.com"),
      (
        "https://login.example.com/realms/a/.well-known/openid-configuration?x=1",
        "https://login.example.com/realms/a"
      ),
      ("https://login.example.com/.well-known/oauth-authorization-server/tenant", "https://login.example.com/tenant"),
      ("http://127.0.0.1:8080/a/", "http://127.0.0.1:8080/a/"), ("google", nil), ("ada@example.com", nil),
      ("ftp://login.example.com", nil), ("https://ada@login.example.com", nil), ("https://", nil),
      ("https://login.example.com/a b", nil),
    ]
    for (text, issuer) in table { #expect(IssuerText(text)?.candidates.first == issuer, "\(text)") }
    #expect(IssuerText("https://a.example/x")?.candidates == ["https://a.example/x", "https://a.example/x/"])
    #expect(IssuerText("https://a.example/x/")?.candidates == ["https://a.example/x/", "https://a.example/x"])
    #expect(IssuerText("https://A.Example:8443/x")?.host == "a.example")
    for (text, url) in [
      ("http://a.example", "https://a.example"), ("HTTP://a.example:80/x:80/", "https://a.example/x:80/"),
      ("http://a.example:8080/x", "https://a.example:8080/x"),
    ] {
      #expect(IssuerText(text)?.withHTTPS == url)
    }
  }

  /// A broker without providers, which registers no client.
  private static func replies(_ error: RPCError) -> [String: ScriptedBroker.Reply] {
    [
      "broker.status": answer(DoctorTests.status()), "provider.list": answer(["providers": []]),
      "provider.register": refuse(error), "account.get": refuse(RPCError(.unknownAccount, "no account \"work\"")),
    ]
  }

  @Test("for an issuer at plain http the hint is the same command with https")
  func plainHTTP() async throws {
    var error = RPCError.invalidParams("params.issuer: not https", hint: "Use https.")
    error.detail = ProviderRegister.notHTTPS
    try await ScriptedBroker.with(Self.replies(error)) { broker, _ async throws in
      let recorder = Recorder()
      let given = ["http://login.example.com:80/a", "work", "--name", "mine", "--scope", "openid email", "--device"]
      #expect(try await broker.run(["setup"] + given, recorder) == .usage)
      #expect(
        recorder.err == """
          grantctl: the issuer http://login.example.com:80/a is not https
            Use https: `grantctl setup https://login.example.com/a work --name mine --scope 'openid email' --device`

          """)
    }
  }

  @Test("the hint of a missing answer names the broker's options once")
  func options() async throws {
    try await ScriptedBroker.with(Self.replies(.invalidParams(""))) { broker, _ async throws in
      let recorder = Recorder()
      #expect(try await broker.run(["setup", "--socket", broker.path], recorder) == .usage)
      #expect(recorder.err.hasSuffix("  Give it: `grantctl setup --socket \(broker.path) https://ISSUER`\n"))
    }
  }

  @Test(
    "a wrong answer to the first question is explained, and the question is repeated",
    arguments: [
      ("https://login.example.com", .success), ("gogle", .unknownName), ("", .usage),
    ] as [(String, ExitStatus)])
  func wrongAnswers(last: String, expected: ExitStatus) async throws {
    var replies = Self.replies(.invalidParams(""))
    replies["provider.register"] = answer(
      ["provider": "login.example.com", "client_id": "c", "issuer": "https://login.example.com", "warnings": []])
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let recorder = Recorder()
      for line in ["", "foo bar", last] { recorder.type(line) }
      #expect(try await broker.run(["setup", "--provider-only"], recorder) { $0.canAsk = true } == expected)
      let example = "Enter the name of a template, or an issuer URL such as https://login.example.com."
      let question = "Template or issuer URL: "
      let wrong = "is not a provider, a template or an issuer URL"
      #expect(
        recorder.err.contains(
          "\n\(question)There was no answer. \(example)\n\(question)“foo bar” \(wrong). \(example)\n\(question)"))
      let hint = "  Give it: `grantctl setup https://ISSUER`\n"
      switch expected {
      case .success: #expect(recorder.out.contains("✓ Provider: login.example.com"))
      case .unknownName:
        #expect(recorder.err.hasSuffix("grantctl: “gogle” \(wrong)\n  Did you mean google?\n\(hint)"))
      default: #expect(recorder.err.hasSuffix("grantctl: there was no answer\n  \(example)\n\(hint)"))
      }
    }
  }

  @Test("an issuer of a template leads to it")
  func templates() {
    #expect(SetupTemplate.of(issuer: "https://accounts.google.com")?.name == "google")
    #expect(SetupTemplate.of(issuer: "https://login.microsoftonline.com/common/v2.0")?.name == "microsoft")
    #expect(SetupTemplate.of(issuer: "https://accounts.google.com.example.org") == nil)
    #expect(Set(SetupTemplate.all.map(\.name)).count == SetupTemplate.all.count)
  }

  @Test("a section is printed so that no value can end a line")
  func section() {
    let lines = ProviderSectionText.lines(
      "127.0.0.1", ["client_id": "a\"b\n[x]", "kind": "oidc", "scopes": ["openid", "e\\f"]])
    #expect(
      lines == [
        "[provider.\"127.0.0.1\"]", "kind = \"oidc\"", "client_id = \"a\\\"b\\n[x]\"",
        "scopes = [\"openid\", \"e\\\\f\"]",
      ])
  }

  @Test("INI files of Python and rclone")
  func ini() {
    let text = "# c\n[a]\ntype = drive\nToken={\"x\": \"a=b\"}\n\n[b@c]\nk: v\n  more\n; c\nempty =\n"
    let sections = INIText(Array(text.utf8)).sections
    #expect(sections.map(\.name) == ["a", "b@c"])
    #expect(sections.first?["token"] == "{\"x\": \"a=b\"}" && sections.last?["k"] == "v\nmore")
    #expect(sections.last?["empty"] == nil)
  }

  @Test("accounts of a pizauth.conf")
  func pizauth() {
    let text = """
      auth_notify_cmd = "notify \\"x\\""; // account "no" {}
      account "a b" { client_id = "id"; scopes = ["s1", "s2"]; auth_uri_fields = { "k": "v" }; }
      account "c" { token_uri = "https://t.example/"; }
      account
      """
    let accounts = PizauthText(Array(text.utf8)).accounts
    #expect(accounts.map(\.name) == ["a b", "c"])
    #expect(accounts.first?["client_id"] == "id" && accounts.first?.values["scopes"] == ["s1", "s2"])
    #expect(accounts.last?["token_uri"] == "https://t.example/")
  }
}
