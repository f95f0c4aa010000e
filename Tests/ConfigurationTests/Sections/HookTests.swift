import Broker
import BrokerAPI
import Foundation
import Testing

@testable import GrantdConfiguration

@Suite struct HookTests {
  @Test("A hook of a command alone is for everything, for 30 seconds")
  func plain() throws {
    let settings = try Fixture().load("[[on_event]]\ncommand = [\"/bin/sh\", \"-c\", \"a b $(c)\"]")
    let hook = try #require(settings.hooks.first)
    #expect(hook.command == ["/bin/sh", "-c", "a b $(c)"])
    #expect(hook.events == Set(EventType.allCases) && hook.accounts == nil && hook.timeout == .seconds(30))
    #expect(hook.passEnvironment.isEmpty && hook.name.hasSuffix("grantd.toml:1"))
    #expect(settings.warnings.isEmpty)
  }

  @Test("Each key of a hook arrives where it belongs, and hooks are appended")
  func keys() throws {
    let fixture = try Fixture()
    try fixture.write("grantd.d/more.toml", "[[on_event]]\ncommand = [\"/bin/sh\"]\nevents = [\"store.failed\"]")
    let settings = try fixture.load(
      """
      [[on_event]]
      command = ["/bin/sh"]
      events = ["login.required", "refresh_token.expiring"]
      accounts = ["work-*", "home"]
      timeout = "2m"
      pass_environment = ["DBUS_SESSION_BUS_ADDRESS", "_x1"]
      """)
    #expect(settings.hooks.map(\.events) == [[.loginRequired, .refreshTokenExpiring], [.storeFailed]])
    #expect(settings.hooks.first?.accounts == ["work-*", "home"])
    #expect(settings.hooks.first?.timeout == .seconds(120))
    #expect(settings.hooks.first?.passEnvironment == ["DBUS_SESSION_BUS_ADDRESS", "_x1"])
  }

  @Test(
    "What is wrong with a hook is said",
    arguments: [
      ("[[on_event]]", "grantd.toml:1: [[on_event]] has no \"command\""),
      ("[on_event]\ncommand = [\"/bin/sh\"]", "grantd.toml:1: hooks are written as [[on_event]], with two brackets"),
      (
        "[[on_events]]\ncommand = [\"/bin/sh\"]",
        "grantd.toml:1: unknown key \"on_events\" outside of any section: did you mean [[on_event]]?"
      ),
      (
        "[[on_event]]\ncomand = [\"/bin/sh\"]",
        "grantd.toml:2: unknown key \"comand\" in [[on_event]]: did you mean \"command\"?"
      ),
      (
        "[[on_event]]\ncommand = [\"sh\"]",
        "grantd.toml:2: \"command\" in [[on_event]] must be a list of texts: the program's absolute path and its arguments, "
          + "not one that begins with \"sh\""
      ),
      (
        "[[on_event]]\ncommand = \"/bin/sh\"",
        "grantd.toml:2: \"command\" in [[on_event]] must be a list of texts: the program's absolute path and its arguments, "
          + "not a text"
      ),
      (
        "[[on_event]]\ncommand = []",
        "grantd.toml:2: \"command\" in [[on_event]] must be a list of texts: the program's absolute path and its arguments, "
          + "not an empty one"
      ),
      (
        "[[on_event]]\ncommand = [\"/bin/sh\"]\nevents = [\"login.requierd\"]",
        "grantd.toml:3: \"events\" in [[on_event]] must be a list of events, such as \"login.required\", not one with "
          + "\"login.requierd\": did you mean \"login.required\"?"
      ),
      (
        "[[on_event]]\ncommand = [\"/bin/sh\"]\naccounts = [\"a b\"]",
        "grantd.toml:3: \"accounts\" in [[on_event]] must be a list of account names, not one with \"a b\""
      ),
      (
        "[[on_event]]\ncommand = [\"/bin/sh\"]\npass_environment = [\"GRANTD_SOCKET\"]",
        "grantd.toml:3: \"pass_environment\" in [[on_event]] must be a list of names of variables, not one with "
          + "\"GRANTD_SOCKET\", which is grantd's own"
      ),
      (
        "[[on_event]]\ncommand = [\"/bin/sh\"]\npass_environment = [\"A=b\"]",
        "grantd.toml:3: \"pass_environment\" in [[on_event]] must be a list of names of variables, not one with \"A=b\""
      ),
    ])
  func wrong(_ text: String, _ complaint: String) throws {
    let found = try Fixture().complaint(text)
    #expect(found.split(separator: "\n").first.map(String.init) == complaint)
  }

  @Test("A program that is not there, or cannot be executed, is a warning: it may come")
  func warnings() throws {
    let fixture = try Fixture()
    let plain = try fixture.write("plain", "x", mode: 0o644)
    for (path, reason) in [
      ("/missing", "cannot be found: No such file or directory"), (plain, "cannot be executed: Permission denied"),
      (fixture.folder, "is not a file"),
    ] {
      let settings = try fixture.load("[[on_event]]\ncommand = [\"\(path)\"]")
      #expect(settings.hooks.count == 1)
      let warning = try #require(settings.warnings.first)
      #expect(warning.contains("grantd.toml:2: the program \"") && warning.hasSuffix("of [[on_event]] \(reason)"))
    }
  }

  @Test("Metrics are served nowhere, or on this machine")
  func metrics() throws {
    #expect(try Fixture().load("[metrics]").metrics.listen == nil)
    for (text, address) in [
      ("127.0.0.1:9464", LocalAddress.loopback(host: "127.0.0.1", port: 9464)),
      ("[::1]:1", .loopback(host: "::1", port: 1)), ("/run/m.sock", .unix(path: "/run/m.sock")),
    ] {
      #expect(try Fixture().load("[metrics]\nlisten = \"\(text)\"").metrics.listen == address)
    }
    #expect(
      try Fixture().complaint("[metrics]\nlisten = \"0.0.0.0:9464\"")
        == "grantd.toml:2: \"listen\" in [metrics]: \"0.0.0.0:9464\" can be reached from other machines (0.0.0.0), and what "
        + "is served there is for this machine: listen on 127.0.0.1 or [::1], behind a proxy that authenticates"
    )
    #expect(
      try Fixture().complaint("[metrics]\nlisten = \"9464\"")
        == "grantd.toml:2: \"listen\" in [metrics] must be an address of this machine with a port, such as "
        + "\"127.0.0.1:9464\" or \"[::1]:9464\", or the absolute path of a socket, not \"9464\"")
  }
}
