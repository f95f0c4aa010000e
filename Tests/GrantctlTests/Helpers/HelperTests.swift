import ArgumentParser
import BrokerAPI
import BrokerSocket
import CredentialHelpers
import Foundation
import Testing

@testable import grantctl

@Suite struct HelperTests {
  static let file = "/h/.config/grantd/helper.toml"
  static let input = "protocol=https\nhost=git.example.com\n\n"
  static let token: JSON = [
    "access_token": "T", "token_type": "Bearer", "expires_at": 9, "scope": [], "account": "work", "provider": "p",
    "generation": 7,
  ]

  /// One run of a helper: what it printed, and the broker that it asked.
  private static func run(
    _ arguments: [String], _ input: String, mapping: String? = nil, _ replies: [String: ScriptedBroker.Reply],
    bounded: Terminal.BoundedInput? = nil
  ) async throws -> (status: ExitStatus, out: String, err: String, broker: [String: JSON]) {
    let recorder = Recorder()
    var asked: [String: JSON] = [:]
    var status = ExitStatus.success
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      status = try await broker.run(["helper"] + arguments, recorder, environment: ["HOME": "/h"]) { terminal in
        let given = bounded ?? .bytes(Array(input.utf8))
        terminal.inputUntil = { _, _, _ in given }
        terminal.files.exists = { $0 == file && mapping != nil }
        terminal.files.text = { _ in .text(mapping ?? "", isOpenToOthers: false) }
      }
      for method in broker.methods { asked[method] = broker.params(of: method) }
    }
    return (status, String(decoding: recorder.bytes, as: UTF8.self), recorder.err, asked)
  }

  private static let mapping = """
    [[host]]
    name = "git.example.com"
    account = "work"
    scopes = ["repo"]
    resource = "https://r"
    """

  @Test("only the mapping's account, scopes and resource are requested") func mapped() async throws {
    let run = try await Self.run(["git", "get"], Self.input, mapping: Self.mapping, ["token.get": answer(Self.token)])
    #expect(run.status == .success && run.err == "")
    #expect(run.out == "username=oauth2\npassword=T\npassword_expiry_utc=9\n")
    #expect(run.broker == ["token.get": ["account": "work", "scopes": ["repo"], "resource": "https://r"]])
  }

  @Test("an account that is named needs no mapping") func named() async throws {
    for arguments in [["git", "--account", "x", "get"], ["git", "--account=x", "get"]] {
      let run = try await Self.run(arguments, Self.input, ["token.get": answer(Self.token)])
      #expect(run.broker["token.get"]?["account"] == "x")
    }
  }

  @Test(
    "arguments of the calling program choose neither account nor broker",
    arguments: [
      ["keyring", "get", "https://evil.example.com/", "--account=work"],
      ["keyring", "get", "--account", "work", "https://evil.example.com/"],
      ["keyring", "--mode=creds", "--account=work", "get", "https://evil.example.com/"],
      ["keyring", "get", "https://evil.example.com/", "--socket=/s"], ["git", "get", "--account=work"],
    ])
  func foreignWords(arguments: [String]) async throws {
    let run = try await Self.run(
      arguments, "protocol=https\nhost=evil.example.com\n\n", mapping: Self.mapping,
      ["token.get": answer(Self.token), "provider.list": answer(["providers": []])])
    #expect(run.out == "" && run.broker["token.get"] == nil)
  }

  @Test(
    "grantctl's options end at another program's first word, unless the user writes the whole line",
    arguments: [
      (
        PythonKeyring.self, ["--account=a", "--user", "get", "--account=b", "--system"], "a",
        ["get", "--account=b", "--system"]
      ),
      (PythonKeyring.self, ["--", "--account=b"], nil, ["--", "--account=b"]),
      (AWS.self, ["--role", "r", "--account", "a"], "a", ["--role", "r"]),
    ] as [(any CredentialProtocol.Type, [String], String?, [String])])
  func ownOptions(chosen: any CredentialProtocol.Type, arguments: [String], account: String?, rest: [String]) {
    let options = HelperArguments(arguments, of: chosen)
    #expect(options.account == account && options.rest == rest && !options.wish.isSystem)
  }

  @Test(
    "keyring returns the token for the https URL of an index, and not for its host, which pip asks next",
    arguments: [
      (["get", "https://git.example.com/simple/", "ada"], "T\n"), (["get", "git.example.com", "ada"], ""),
      (["--account", "work", "get", "git.example.com", "ada"], ""), (["get", "http://git.example.com/", "ada"], ""),
    ])
  func keyring(arguments: [String], out: String) async throws {
    let run = try await Self.run(
      ["keyring"] + arguments, "", mapping: Self.mapping, ["token.get": answer(Self.token)])
    #expect(run.out == out)
    guard out.isEmpty else { return }
    #expect(run.status == .failure && run.broker.isEmpty)
    let what =
      arguments.contains { $0.hasPrefix("http:") }
      ? "is requested over http, readable by others: use https"
      : "is requested without https://, so the token might be sent over http, readable by others: "
        + "give the program the URL of the index with https://"
    #expect(
      run.err
        == "grantd: git.example.com \(what), or write allow_insecure_http = true to its entry in \(Self.file)\n")
  }

  @Test(
    "docker's store succeeds where the place is an account's, since the helper answers for it, and nowhere else",
    arguments: [("git.example.com", true), ("https://git.example.com/v1/", true), ("other.example.com", false)])
  func store(server: String, isOurs: Bool) async throws {
    let run = try await Self.run(
      ["docker", "store"], "{\"ServerURL\":\"\(server)\",\"Username\":\"ada\",\"Secret\":\"x\"}", mapping: Self.mapping,
      ["provider.list": answer(["providers": []])])
    #expect(run.status == (isOurs ? .success : .failure) && run.broker["token.get"] == nil)
    let line =
      "grantd keeps no passwords, and no account is for other.example.com: name another helper for it in credHelpers\n"
    #expect(run.out == (isOurs ? "" : line) && run.err == run.out)
  }

  @Test("a fault in the mapping is said with its line") func fault() async throws {
    let run = try await Self.run(["git", "get"], Self.input, mapping: "[[host]]\nx", [:])
    #expect(run.status == .success && run.out == "")
    #expect(run.err == "grantd: \(Self.file):2: a line is KEY = VALUE, [[host]] or a comment\n")
  }

  @Test(
    "a host without an entry belongs to its issuer's account, or to none",
    arguments: [
      ("https://git.example.com", ["work"], "password"), ("https://GIT.example.com.:443/realm", ["work"], "password"),
      ("https://git.example.com:444", ["work"], "nothing"), ("http://git.example.com", ["work"], "nothing"),
      ("https://other.example.com", ["work"], "nothing"), ("https://git.example.com", [], "nothing"),
      ("https://git.example.com", ["ada", "work"], "quit"),
    ] as [(String, [String], String)])
  func issuer(issuer: String, accounts: [String], outcome: String) async throws {
    let provider: JSON = [
      "provider": "p", "kind": "oidc", "display_name": "P", "issuer": .string(issuer), "client_id": "c", "scopes": [],
      "accounts": 1, "state": "ok",
    ]
    let listed = accounts.map {
      ["account": .string($0), "provider": "p", "state": "ok", "scopes": [], "generation": 1, "logged_in_at": 1] as JSON
    }
    let run = try await Self.run(
      ["git", "get"], Self.input,
      [
        "provider.list": answer(["providers": [provider]]), "account.list": answer(["accounts": .array(listed)]),
        "token.get": answer(Self.token),
      ])
    #expect(run.status == .success)
    switch outcome {
    case "password": #expect(run.out.contains("password=T\n") && run.err == "")
    case "quit":
      #expect(run.out == "quit=1\n")
      #expect(
        run.err == "grantd: accounts ada, work are for git.example.com: name one as the user (ada@git.example.com), or "
          + "write to \(Self.file): [[host]] name = \"git.example.com\" account = \"ada\"\n")
    default: #expect(run.out == "" && run.err == "")
    }
  }

  @Test("a caller that may not list providers has a mapping, or no account") func notPermitted() async throws {
    let run = try await Self.run(["git", "get"], Self.input, ["provider.list": refuse(RPCError(.notPermitted, "no"))])
    #expect(run.status == .success && run.out == "" && run.err == "")
  }

  @Test("an error is one line with the next command") func errors() async throws {
    let ended = RPCError(
      .loginRequired, "account work needs a login", hint: "Sign in again: `grantctl login p work`.")
    let run = try await Self.run(["git", "get"], Self.input, mapping: Self.mapping, ["token.get": refuse(ended)])
    #expect(run.out == "quit=1\n" && run.status == .success)
    #expect(run.err == "grantd: account work needs a login. Sign in again: `grantctl login p work`.\n")
  }

  @Test("others' words cannot end the line, nor be longer than it") func oneLine() async throws {
    let words = "no\nSecret: x\u{1B}[2J" + String(repeating: "y", count: 5000)
    let run = try await Self.run(
      ["docker", "--account", "work", "get"], "h", ["token.get": refuse(RPCError(.providerError, words))])
    #expect(run.status == .failure && run.out.hasPrefix("no\\nSecret: x\\u{1B}[2Jyyy") && run.out.count < 1100)
    #expect(run.out.filter(\.isNewline).count == 1 && run.err.filter(\.isNewline).count == 1)
  }

  @Test(
    "a token that is not a bearer token is not returned",
    arguments: [
      (["token_type": "DPoP", "access_token": "T"], "bound to a key"),
      (["session_id": "s", "kind": "session"], "session"),
      (["token_type": "Bearer", "access_token": "T\npassword=x"], "characters"),
    ] as [(JSON, String)])
  func noBearer(members: JSON, word: String) async throws {
    let common: [JSON.Member] = (Self.token.members ?? []).filter { !["access_token", "token_type"].contains($0.name) }
    let token = JSON.object((members.members ?? []) + common)
    let run = try await Self.run(["git", "get"], Self.input, mapping: Self.mapping, ["token.get": answer(token)])
    #expect(run.out == "quit=1\n")
    #expect(run.err.contains(word))
  }

  @Test(
    "the token that was refused is reported, and no other secret", arguments: [("T", true), ("other", false)])
  func reported(secret: String, isReported: Bool) async throws {
    let input = "protocol=https\nhost=git.example.com\nusername=oauth2\npassword=\(secret)\n\n"
    let run = try await Self.run(
      ["git", "erase"], input, mapping: Self.mapping,
      ["token.get": answer(Self.token), "token.report_rejected": answer(["refreshed": true, "generation": 8])])
    #expect(run.out == "" && run.err == "" && run.status == .success)
    #expect((run.broker["token.report_rejected"] == ["account": "work", "generation": 7, "timeout": 10]) == isReported)
  }

  @Test(
    "input that is too long or stops is refused",
    arguments: [(Terminal.BoundedInput.tooLong, "longer than 256 KiB"), (.stopped, "stopped before its end")])
  func badInput(input: Terminal.BoundedInput, word: String) async throws {
    let run = try await Self.run(["git", "get"], "", mapping: Self.mapping, [:], bounded: input)
    #expect(run.status == .success && run.out == "" && run.err.contains(word) && run.broker.isEmpty)
  }

  @Test(
    "the name of the program, or the first words, choose the helper",
    arguments: [
      (["/usr/bin/git-credential-grantd", "get"], "git", ["get"]), (["keyring", "get", "x"], "keyring", ["get", "x"]),
      (["/usr/bin/grantctl", "helper", "docker", "get"], "docker", ["get"]),
      (["docker-credential-grantd", "helper", "git"], "docker", ["helper", "git"]),
    ])
  func starts(words: [String], name: String, arguments: [String]) throws {
    let start = try #require(HelperCommand.Start(words))
    #expect(start.chosen.name == name && start.arguments == arguments)
  }

  @Test(
    "other starts are those of grantctl",
    arguments: [
      [], [""], ["grantctl"], ["grantctl", "helper"], ["grantctl", "helper", "--socket", "/s", "git", "get"],
      ["grantctl", "helper", "gti"], ["grantctl", "token", "git"], ["grantctl", "git", "get"],
    ])
  func otherStarts(words: [String]) {
    #expect(HelperCommand.Start(words) == nil)
    let programs = Protocols.all.flatMap { $0.programs }
    #expect(Set(programs).count == programs.count)
  }

  @Test("an unknown helper is a usage error") func unknown() async throws {
    let run = try await Self.run(["gti"], "", [:])
    #expect(run.status == .usage && run.err.hasPrefix("grantctl: there is no helper gti\n"))
  }

  @Test("the page has each helper, each program's name and each key") func page() throws {
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let text = try String(contentsOf: top.appendingPathComponent("docs/helpers.md"), encoding: .utf8)
    for chosen in Protocols.all {
      let programs = chosen.programs.map { "`\($0)`" }.joined(separator: ", ")
      #expect(text.contains("| `\(chosen.name)` | \(programs.isEmpty ? "-" : programs) |"), "\(chosen.name)")
    }
    for key in MappingFile.keys { #expect(text.contains("| `\(key)` |"), "\(key)") }
  }
}
