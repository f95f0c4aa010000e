import BrokerAPI
import BrokerSocket
import CredentialHelpers
import Foundation
import Synchronization
import Testing

@testable import grantctl

@Suite struct ConfigureTests {
  /// Files in memory.
  private final class Files: Sendable {
    private let files: Mutex<[String: String]>

    private let refused: String?

    init(_ files: [String: String] = [:], refused: String? = nil) {
      self.files = Mutex(files)
      self.refused = refused
    }

    var all: [String: String] { files.withLock { $0 } }

    func run(
      _ arguments: [String], environment: [String: String] = [:], programs: Machine? = nil
    ) async throws -> (status: ExitStatus, out: String, err: String) {
      let recorder = Recorder()
      let environment = environment.merging(["HOME": "/h", "GRANTD_SOCKET": "/nowhere"]) { own, _ in own }
      let status = try await perform(["configure"] + arguments, recorder, environment: environment) { terminal in
        if let programs { terminal.machine = programs }
        terminal.files.exists = { [self] path in all[path] != nil }
        terminal.files.bytes = { [self] path, _ in all[path].map { .bytes(Array($0.utf8)) } ?? .unreadable("no") }
        terminal.files.text = { [self] path in
          all[path].map { .text($0, isOpenToOthers: false) } ?? .unreadable("no")
        }
        terminal.files.rewrite = { [self] path, bytes, _ in
          guard path != refused else { return "Read-only file system" }
          files.withLock { $0[path] = String(decoding: bytes, as: UTF8.self) }
          return nil
        }
        terminal.files.remove = { [self] path in
          files.withLock { $0[path] = nil }
          return nil
        }
      }
      return (status, recorder.out, recorder.err)
    }
  }

  @Test("without --write it is printed, and nothing is changed") func printed() async throws {
    let files = Files()
    let run = try await files.run(["git", "work", "git.example.com"])
    #expect(run.status == .success && files.all.isEmpty)
    #expect(
      run.out == """
        # >>> grantd: git work git.example.com
        [credential "https://git.example.com"]
        \thelper =
        \thelper = "!grantctl helper git --account work"
        # <<< grantd: git work git.example.com

        """)
    #expect(
      run.err == """
        # /h/.gitconfig
        Nothing was written: --write adds this to the tool's configuration, --diff prints the changed lines.

        """)
    for option in ["--write", "--diff", "--undo"] {
      let other = try await files.run(["git", "work", "git.example.com", option])
      #expect(!other.err.contains("Nothing was written"))
    }
  }

  @Test("--write keeps the file of before, twice is once, and --undo puts it right") func writes() async throws {
    let before = "[user]\n\tname = Ada\n"
    let files = Files(["/h/.gitconfig": before])
    let command = ["git", "work", "git.example.com"]
    #expect(try await files.run(command + ["--write"]).status == .success)
    let written = files.all
    #expect(written["/h/.gitconfig"]?.hasPrefix(before + "\n# >>> grantd") == true)
    #expect(written["/h/.gitconfig.grantd-backup"] == before)
    let again = try await files.run(command + ["--write"])
    #expect(again.out == "/h/.gitconfig: nothing to change\n" && files.all == written)
    #expect(try await files.run(command + ["--undo"]).status == .success)
    #expect(files.all["/h/.gitconfig"] == before)
    #expect(try await files.run(command + ["--undo"]).out == "/h/.gitconfig: nothing to change\n")
  }

  @Test("root writes no file in the home of another user", .enabled(if: geteuid() == 0)) func foreignHome() async throws
  {
    let home = FileManager.default.temporaryDirectory.appending(path: "grantctl-home-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: home) }
    #expect(chown(home, 4711, 4711) == 0)
    let files = Files(["\(home)/.gitconfig": ""])
    for option in ["--write", "--undo"] {
      let run = try await files.run(["git", "work", "git.example.com", option], environment: ["HOME": home])
      #expect(run.status == .failure && run.err.contains("which belongs to uid 4711"))
    }
    #expect(files.all == ["\(home)/.gitconfig": ""])
  }

  @Test("--diff prints the changed lines of --write and of --undo, without those around them") func difference()
    async throws
  {
    let path = "/h/.docker/config.json"
    let text = "{\"auths\": {\"h\": {\"auth\": \"c2VjcmV0\"}}, \"last\": \"own\"}"
    let files = Files([path: text])
    let command = ["docker", "work", "r.example.com"]
    let added = try await files.run(command + ["--diff"])
    #expect(added.status == .success && files.all == [path: text], "\(added)")
    #expect(
      added.out.contains("--- \(path)\n+++ \(path)\n@@ ") && added.out.contains("+++ /h/.config/grantd/helper.toml"))
    #expect(
      added.out.contains("+    \"r.example.com\": \"grantd\"") || added.out.contains("\"r.example.com\": \"grantd\""))
    #expect(!added.out.contains("c2VjcmV0") && !added.out.contains("own"))
    #expect(try await files.run(command + ["--write"]).status == .success)
    let written = files.all
    #expect(try await files.run(command + ["--diff"]).out.contains("\(path): nothing to change\n"))
    let removed = try await files.run(command + ["--undo", "--diff"])
    #expect(removed.out.contains("-name = \"r.example.com\"") && files.all == written, "\(removed)")
    await #expect(throws: (any Error).self) { try await files.run(command + ["--write", "--diff"]) }
  }

  @Test("a file that does not exist, or is removed, is /dev/null in --diff, as patch(1) expects") func devNull()
    async throws
  {
    let command = ["git", "work", "git.example.com"]
    let files = Files()
    let block = """
      # >>> grantd: git work git.example.com
      [credential "https://git.example.com"]
      \thelper =
      \thelper = "!grantctl helper git --account work"
      # <<< grantd: git work git.example.com
      """.split(separator: "\n")
    func lines(_ names: [String], _ sign: String) -> String {
      (names + block.map { sign + $0 }).map { $0 + "\n" }.joined()
    }
    let added = try await files.run(command + ["--diff"])
    #expect(added.out == lines(["--- /dev/null", "+++ /h/.gitconfig", "@@ -0,0 +1,5 @@"], "+"))
    #expect(try await files.run(command + ["--write"]).status == .success)
    let removed = try await files.run(command + ["--undo", "--diff"])
    #expect(removed.out == lines(["--- /h/.gitconfig", "+++ /dev/null", "@@ -1,5 +0,0 @@"], "-"))
    #expect(try await Files().run(command + ["--undo", "--diff"]).out == "/h/.gitconfig: nothing to change\n")
  }

  @Test("if the second file cannot be written, the first is as before") func takenBack() async throws {
    let path = "/h/.docker/config.json"
    for before in ["{}\n", nil] {
      for refused in ["/h/.config/grantd/helper.toml", path] {
        let one = Files(before.map { [path: $0] } ?? [:], refused: refused)
        let run = try await one.run(["docker", "work", "r.example.com", "--write"])
        #expect(run.status == .failure && one.all == (before.map { [path: $0] } ?? [:]), "\(run) \(one.all)")
        #expect(run.err.contains("cannot be written"))
      }
    }
  }

  @Test("files that were made for this go again") func removed() async throws {
    let files = Files()
    let command = ["docker", "work", "registry.example.com:5000"]
    #expect(try await files.run(command + ["--write"]).status == .success)
    #expect(
      files.all["/h/.docker/config.json"] == "{\n  \"credHelpers\": {\"registry.example.com:5000\": \"grantd\"}\n}\n"
        || files.all["/h/.docker/config.json"]?.contains("\"registry.example.com:5000\": \"grantd\"") == true)
    #expect(files.all["/h/.config/grantd/helper.toml"]?.contains("name = \"registry.example.com:5000\"") == true)
    #expect(try await files.run(command + ["--undo"]).status == .success)
    #expect(files.all["/h/.config/grantd/helper.toml"] == nil)
    #expect(files.all["/h/.docker/config.json"] == "{}\n")
  }

  @Test("a file that would be contradicted, or is broken, is left alone") func refused() async throws {
    let table: [([String], String, String)] = [
      (["pip", "work", "https://h/simple/"], "/h/.config/pip/pip.conf", "[global]\nindex-url = x\n"),
      (["docker", "work", "h"], "/h/.docker/config.json", "{"),
      (["docker", "work", "h"], "/h/.docker/config.json", "{\"credHelpers\": 1}"),
      (["go", "work", "h"], "/h/.config/go/env", "GOAUTH=netrc\n"),
      (["terraform", "work", "h"], "/h/.terraformrc", "credentials_helper \"other\" {\n}\n"),
      (["terraform", "work", "h"], "/h/.terraformrc", "credentials \"h\" {\n  token = \"t\"\n}\n"),
      (["cargo", "work", "https://h/"], "/h/.cargo/config.toml", "[registries.work] # ours\n"),
      (["uv", "work", "https://h/simple/"], "/h/.config/uv/uv.toml", "[[index]] # ours\nurl = \"x\"\n"),
      (["uv", "work", "https://h/simple/"], "/h/.config/uv/uv.toml", "\"index\" = [{ url = \"x\" }]\n"),
      (["uv", "work", "https://h/simple/"], "/h/.config/uv/uv.toml", "index = [\n  { url = \"x\" },\n]\n"),
    ]
    for (command, path, text) in table {
      let files = Files([path: text])
      #expect(try await files.run(command + ["--write"]).status == .failure, "\(command)")
      #expect(files.all == [path: text])
    }
  }

  @Test("another helper for a registry stays, and is named") func otherHelper() async throws {
    let path = "/h/.docker/config.json"
    let text = "{\"credHelpers\": {\"h:5000\": \"ecr-login\", \"other\": \"pass\"}}"
    let files = Files([path: text])
    let run = try await files.run(["docker", "work", "h:5000", "--write"])
    #expect(run.status == .failure && files.all == [path: text])
    #expect(
      run.err.hasPrefix("grantctl: \(path) has “ecr-login” for h:5000 in credHelpers, which this would replace\n"))
    #expect(
      try await files.run(["docker", "work", "h:5000", "--undo"]).status == .success && files.all == [path: text])
    let ours = Files([path: text.replacing("ecr-login", with: "grantd")])
    #expect(try await ours.run(["docker", "work", "h:5000", "--write"]).status == .success)
  }

  @Test("uv's other settings stay at the top level, and an existing index is extended by hand") func uv()
    async throws
  {
    let path = "/h/.config/uv/uv.toml"
    let files = Files([path: "system-certs = true\n"])
    let command = ["uv", "work", "https://h/simple/", "--write"]
    #expect(try await files.run(command).status == .success)
    #expect(
      files.all[path] == """
        # >>> grantd: uv work h
        keyring-provider = "subprocess"
        index = [{ url = "https://oauth2@h/simple/", default = true }]
        # <<< grantd: uv work h

        system-certs = true

        """)
    let run = try await Files([path: "index = [{ url = \"x\" }]\n"]).run(command)
    #expect(
      run.err.contains(
        "Add by hand: keyring-provider = \"subprocess\", and the index url = \"https://oauth2@h/simple/\", default = true"
      ))
  }

  @Test(
    "settings for all hosts are written once, and stay until the last host is removed",
    arguments: [
      ("go", "/h/.config/go/env", "GOAUTH=grantctl helper go", "GOPROXY=direct\n"),
      ("terraform", "/h/.terraformrc", "credentials_helper \"grantd\" {}", "plugin_cache_dir = \"/c\"\n"),
    ])
  func severalHosts(tool: String, path: String, line: String, before: String) async throws {
    let mapping = "/h/.config/grantd/helper.toml"
    let one = [tool, "work", "a.example.com"]
    let other = [tool, "home", "b.example.com:8443"]
    for order in [[one, other], [other, one]] {
      let files = Files([path: before])
      for command in order + order { #expect(try await files.run(command + ["--write"]).status == .success) }
      #expect(files.all[path] == before + "\n# >>> grantd: \(tool)\n\(line)\n# <<< grantd: \(tool)\n")
      let entries = try MappingFile.parse(files.all[mapping] ?? "")
      #expect(Set(entries.map(\.account)) == ["work", "home"] && entries.count == 2)
      let both = files.all
      let first = try await files.run(order[0] + ["--undo"])
      #expect(first.status == .success && first.out.contains("\(path): stays"))
      #expect(files.all[path] == both[path])
      #expect(try MappingFile.parse(files.all[mapping] ?? "").map(\.account) == [order[1][1]])
      #expect(try await files.run(order[0] + ["--undo"]).status == .success && files.all[path] == both[path])
      #expect(try await files.run(order[1] + ["--undo"]).status == .success)
      #expect(files.all[path] == before && files.all[mapping] == nil)
    }
  }

  @Test(
    "a registry has a name that cargo takes",
    arguments: [("work", "work"), ("ada@example.com", "ada-example-com"), ("a b/ü", "a-b--"), ("a_b-9", "a_b-9")])
  func registry(account: String, name: String) async throws {
    let files = Files()
    let run = try await files.run(["cargo", account, "sparse+https://h/i/", "--write"])
    #expect(run.status == .success && run.err.contains("--registry \(name)"))
    let text = try #require(files.all["/h/.cargo/config.toml"])
    #expect(text.contains("\n[registries.\(name)]\n") && text.contains("\"--account\", \"\(account)\"]"))
  }

  @Test("git's section for a path sends the path, and comes behind that of the host") func gitPaths() async throws {
    let path = "/h/.gitconfig"
    let before = "[user]\n\tname = Ada\n"
    let files = Files([path: before])
    let (host, team) = (["git", "work", "h:8443"], ["git", "team", "https://h:8443/team/"])
    for command in [team, host, team, host] {
      #expect(try await files.run(command + ["--write"]).status == .success)
    }
    func block(_ label: String, _ place: String, _ account: String, path line: String = "") -> String {
      """
      # >>> grantd: git \(label)
      [credential "https://\(place)"]
      \(line)\thelper =
      \thelper = "!grantctl helper git --account \(account)"
      # <<< grantd: git \(label)

      """
    }
    let ofHost = block("work h:8443", "h:8443", "work")
    let ofPath = block("team h:8443/team", "h:8443/team", "team", path: "\tuseHttpPath = true\n")
    #expect(files.all[path] == before + "\n" + ofHost + "\n" + ofPath)
    #expect(try await files.run(host + ["--undo"]).status == .success)
    #expect(files.all[path] == before + "\n" + ofPath)
    #expect(try await files.run(team + ["--undo"]).status == .success && files.all[path] == before)
  }

  @Test(
    "kubectl's file is the one with the user, else the first existing one, else the last",
    arguments: [
      ([:], "", "/h/.kube/config"), ([:], "/a", "/a"), ([:], ":/a::/b", "/b"), (["/b": "x"], "/a:/b:/c", "/b"),
      (["/a": "x", "/b": "- name: grantd-work\n"], "/a:/b", "/b"),
      (["/a": "x", "/b": "{\"users\": [\n{\"name\": \"grantd-work\",\n"], "/a:/b", "/b"),
      (["/a": "user: grantd-work\n- name: grantd-work2\n", "/b": "x"], "/a:/b", "/a"),
      (["/a": "x", "/b": "{\"users\":[{\"name\":\"grantd-work\",\"user\":{}}]}"], "/a:/b", "/b"),
    ] as [([String: String], String, String)])
  func kubeconfig(contents: [String: String], variable: String, path: String) async throws {
    let asked = Mutex<[[String]]>([])
    var machine = Machine.blind
    machine.run = { command, _ in
      asked.withLock { $0.append(command) }
      return .init(status: 0, out: "", err: "")
    }
    // The second --write does not put its own work in the place of the file of before.
    let again = Files(["/a": "- name: grantd-work\n", "/a.grantd-backup": "x"])
    _ = try await again.run(["kubectl", "work", "--write"], environment: ["KUBECONFIG": "/a"], programs: machine)
    #expect(again.all["/a.grantd-backup"] == "x")
    for (option, verb) in [("--write", "set-credentials"), ("--undo", "delete-user")] {
      asked.withLock { $0 = [] }
      let files = Files(contents)
      let run = try await files.run(
        ["kubectl", "work", option], environment: ["KUBECONFIG": variable], programs: machine)
      #expect(run.status == .success)
      let command = try #require(asked.withLock { $0.first })
      #expect(command.contains(verb))
      #expect(command.filter { $0.hasPrefix("--kubeconfig=") } == (variable.isEmpty ? [] : ["--kubeconfig=\(path)"]))
      let before = option == "--write" ? contents[path] : nil
      #expect(files.all.filter { $0.key.hasSuffix("-backup") } == (before.map { ["\(path).grantd-backup": $0] } ?? [:]))
    }
  }

  @Test(
    "values that a configuration cannot hold are refused",
    arguments: [
      ["git", "work"], ["git", "work", "a b"], ["git", "wo\nrk", "h"], ["git", "w'k", "h"],
      ["git", "work", "h\";x=\""],
      ["pip", "work", "h"], ["aws", "work"], ["aws", "work", "--role", "a\nb"], ["msmtp", "work", "h", "--as", "a\"b"],
      ["vim", "work"], ["git", "work", "h`x`"],
      ["git", "work", "http://git.example.com"], ["pip", "work", "http://pypi.example.com/simple/"],
    ])
  func cannotStand(arguments: [String]) async throws {
    let files = Files()
    #expect(try await files.run(arguments + ["--write"]).status == .usage)
    #expect(files.all.isEmpty)
  }

  @Test("http to another machine needs an entry that allows it, for this account; --undo needs none")
  func insecure() async throws {
    let entry = """
      [[host]]
      name = "git.example.com"
      account = "work"
      allow_insecure_http = true

      """
    let files = Files(["/h/.config/grantd/helper.toml": entry])
    let run = try await files.run(["git", "work", "http://git.example.com"])
    #expect(run.status == .success && run.out.contains("[credential \"http://git.example.com\"]"), "\(run.err)")
    // An entry of configure has priority over a wildcard, and permits the same. pip's helper is called keyring.
    let wide = entry.replacing("git.example.com", with: "*.example.com") + "helpers = [\"keyring\"]\n"
    let pip = try await Files(["/h/.config/grantd/helper.toml": wide]).run(
      ["pip", "work", "http://pypi.example.com/simple/"])
    #expect(pip.status == .success && pip.out.contains("allow_insecure_http = true"), "\(pip.err)")
    #expect(try await files.run(["git", "other", "http://git.example.com"]).status == .usage)
    #expect(try await Files().run(["git", "work", "http://git.example.com", "--undo"]).status == .success)
  }

  @Test("http stays http on this machine") func loopback() async throws {
    let run = try await Files().run(["git", "work", "http://127.0.0.1:3000/team"])
    #expect(run.status == .success && run.out.contains("[credential \"http://127.0.0.1:3000/team\"]"))
  }

  @Test(
    "a mistyped tool gets the nearest name, another one the list",
    arguments: [("gti", "Did you mean git?"), ("vim", nil)] as [(String, String?)])
  func mistyped(tool: String, hint: String?) async throws {
    let run = try await Files().run([tool, "work"])
    let list = "There are: \(Tool.names.joined(separator: ", "))"
    #expect(run.status == .usage)
    #expect(run.err == "grantctl: there is no configuration for \(tool)\n  \(hint ?? list)\n")
  }

  @Test("tools without a file print what to do") func notes() async throws {
    for tool in ["gcloud", "prometheus"] {
      let run = try await Files().run([tool, "work"])
      #expect(run.status == .success && run.err.contains("work"))
      #expect(try await Files().run([tool, "work", "--write"]).status == .failure)
    }
    for tool in ["gcloud", "prometheus", "vault", "gcp"] {
      for options in [["--undo"], ["--undo", "--diff"]] {
        let undone = try await Files().run([tool, "work"] + options)
        #expect(undone.status == .success && undone.err.isEmpty)
        #expect(undone.out == "There is nothing to remove: grantctl writes no file for \(tool).\n")
      }
    }
  }

  @Test("the steps for prometheus name the files of the broker that is used") func prometheus() async throws {
    let own = try await Files().run(
      ["prometheus", "work"],
      environment: ["GRANTD_SOCKET": "/run/user/7/grantd/grantd.sock", "XDG_CONFIG_HOME": "/c"])
    #expect(own.err.contains("In /c/grantd/grantd.toml, then `grantctl reload`"))
    #expect(own.err.contains("credentials_file: /run/user/7/grantd/files/prometheus.service/token\n"))
    #expect(!own.err.contains("[[rule]]"))
    let system = try await Files().run(["prometheus", "work"], environment: ["GRANTD_SOCKET": SocketChoice.systemPath])
    #expect(system.err.contains("In /etc/grantd/grantd.toml, then `grantctl reload`"))
    #expect(system.err.contains("credentials_file: /run/grantd/files/prometheus.service/token\n"))
    #expect(system.err.contains("  [[rule]]\n  user = \"prometheus\"\n"))
  }

  @Test(
    "without a resource the hint is the same command with a path",
    arguments: ["claude-code", "codex", "gemini", "cursor", "vscode", "zed", "mcp"])
  func noResource(tool: String) async throws {
    let replies = [
      "account.get": answer(JSON(encoding: TableTests.account("work", .ok))),
      "provider.get": answer(
        JSON(
          encoding: ProviderGet.Result(
            provider: DoctorTests.provider("google"), redirect_uri: "", endpoints: [:], supports: [:],
            metadata_fetched_at: nil))),
    ]
    try await ScriptedBroker.with(replies) { broker, _ async throws in
      let run = try await Files().run([tool, "work"], environment: ["GRANTD_SOCKET": broker.path])
      #expect(run.status == .usage)
      #expect(run.err.hasSuffix("  Give the path at its API: `grantctl configure \(tool) work /mcp`\n"), "\(run.err)")
    }
  }

  @Test(
    "the hint for a broker without [http] restarts the process that runs, by systemd or by hand",
    arguments: [
      ("MainPID=812\n", "`systemctl --user restart grantd`"), ("MainPID=0\n", "`kill 812`, then `grantd --user`"),
      (nil, "`kill 812`, then `grantd --user`"),
    ] as [(String?, String)])
  func restartHint(shown: String?, commands: String) async throws {
    let replies = [
      "account.get": answer(JSON(encoding: TableTests.account("work", .ok))),
      "broker.status": answer(DoctorTests.status()),
    ]
    var machine = Machine.blind
    machine.run = { _, _ in shown.map { Machine.Ended(status: 0, out: $0, err: "") } }
    try await ScriptedBroker.with(replies) { [machine] broker, _ async throws in
      let environment = ["GRANTD_SOCKET": broker.path]
      let command = ["claude-code", "work", "/mcp"]
      let run = try await Files().run(command, environment: environment, programs: machine)
      #expect(run.status == .configuration)
      #expect(run.err.contains(" Then restart the broker: \(commands)\n"), "\(run.err)")
      let written = try await Files().run(command + ["--write"], environment: environment, programs: machine)
      #expect(written.err.contains("Restart the broker: \(commands)\n"), "\(written.err)")
    }
  }

  @Test("the page has each tool") func page() throws {
    let top = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent()
    let text = try String(contentsOf: top.appendingPathComponent("docs/helpers.md"), encoding: .utf8)
    for name in Tool.names { #expect(text.contains("`\(name)`"), "\(name)") }
  }
}
