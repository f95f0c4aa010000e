import Foundation
import OAuth
import Providers
import Testing

@testable import GrantdConfiguration

@Suite struct SecretTests {
  private static func text(_ key: String, _ value: String) -> String { Fixture.provider + "\(key) = \"\(value)\"" }

  @Test(
    "A secret is read from its file, less the newline, and shown nowhere",
    arguments: [
      "tops3cret", "tops3cret\n", "tops3cret\r\n",
    ])
  func reads(contents: String) throws {
    let fixture = try Fixture()
    let path = try fixture.write("secret", contents, mode: 0o600)
    let settings = try fixture.load(Self.text("client_secret_file", path))
    #expect(settings.providers[0].client.credential == .basic(secret: Secret("tops3cret"), encoding: .form))
    var dumped = ""
    dump(settings, to: &dumped)
    #expect(dumped.contains("client"))
    #expect(!dumped.contains("tops3cret"))
    #expect(!"\(settings)".contains("tops3cret"))
    #expect(!String(reflecting: settings).contains("tops3cret"))
  }

  @Test(
    "A secret file that others can read or write is refused",
    arguments: [
      (0o600, false, true), (0o400, false, true), (0o640, true, true), (0o640, false, false), (0o644, true, false),
      (0o660, true, false), (0o602, true, false), (0o604, false, false),
    ])
  func modes(mode: Int, isOwnGroup: Bool, isAccepted: Bool) throws {
    let fixture = try Fixture()
    let path = try fixture.write("secret", "tops3cret", mode: mode)
    let group = try #require(FileManager.default.attributesOfItem(atPath: path)[.groupOwnerAccountID] as? NSNumber)
    let complaint = try fixture.complaint(
      Self.text("client_secret_file", path), groups: isOwnGroup ? [group.uint32Value] : [])
    #expect(
      complaint
        == (isAccepted
          ? "no error"
          : "grantd.toml:4: \"client_secret_file\" in [provider.work]: secret can be read or written by other users: run "
            + "chmod 600 on it"))
  }

  @Test(
    "A secret file that holds no secret is refused, and its contents stay unsaid",
    arguments: [
      ("", "is empty"), ("\n", "is empty"), ("tops3cret\nmore", "has more than one line, or control characters"),
      ("tops3cret\0", "is not UTF-8 text"), (String(repeating: "tops3cret", count: 10_000), "is larger than 64 KiB"),
    ])
  func contents(contents: String, reason: String) throws {
    let fixture = try Fixture()
    let path = try fixture.write("secret", contents, mode: 0o600)
    let complaint = try fixture.complaint(Self.text("client_secret_file", path))
    #expect(complaint == "grantd.toml:4: \"client_secret_file\" in [provider.work]: secret \(reason)")
  }

  @Test(
    "A secret in the wrong place is refused without being repeated",
    arguments: [
      (
        "client_secret = \"tops3cret\"",
        "grantd.toml:4: \"client_secret\" in [provider.work] is refused: others may read this file: put it in a file of "
          + "mode 0600 and write client_secret_file, or use client_secret_credential"
      ),
      (
        "client_secret_file = \"tops3cret\"",
        "grantd.toml:4: \"client_secret_file\" in [provider.work] must be an absolute path, not a relative one"
      ),
      (
        "client_secret_credential = \"tops3cret\"",
        "grantd.toml:4: \"client_secret_credential\" in [provider.work]: this process was given no credentials: add "
          + "LoadCredential= to the unit, or use client_secret_file"
      ),
      (
        "token_parameters = { client_secret = \"tops3cret\" }",
        "grantd.toml:4: \"token_parameters\" in [provider.work]: \"client_secret\" is set by the broker itself: use "
          + "client_secret_file or client_secret_credential"
      ),
      (
        "client_secret_file = \"/nowhere/x\"",
        "grantd.toml:4: \"client_secret_file\" in [provider.work]: /nowhere/x does not exist"
      ),
      (
        "client_secret_file = \"/a\"\nclient_secret_credential = \"b\"",
        "grantd.toml:4: [provider.work] has both \"client_secret_file\" and \"client_secret_credential\": keep one of them"
      ),
    ])
  func misplaced(line: String, complaint: String) throws {
    #expect(try Fixture().complaint(Fixture.provider + line) == complaint)
  }

  @Test("A credential is read whatever its mode, and only from its folder")
  func credentials() throws {
    let fixture = try Fixture()
    try fixture.write("credentials/work", "tops3cret\n", mode: 0o644)
    try fixture.write("outside", "tops3cret")
    let folder = "\(fixture.folder)/credentials"
    let settings = try fixture.load(Self.text("client_secret_credential", "work"), credentials: folder)
    #expect(settings.providers[0].client.credential == .basic(secret: Secret("tops3cret"), encoding: .form))
    #expect(
      try fixture.complaint(Self.text("client_secret_credential", "../outside"), credentials: folder)
        == "grantd.toml:4: \"client_secret_credential\" in [provider.work] is not a name of a credential")
    #expect(
      try fixture.complaint(Self.text("client_secret_credential", "none"), credentials: folder)
        == "grantd.toml:4: \"client_secret_credential\" in [provider.work]: the credential is not among those given to "
        + "this process: add it to the unit by LoadCredential=")
  }

  @Test("A secret and a public client contradict each other")
  func method() throws {
    let fixture = try Fixture()
    let path = try fixture.write("secret", "x", mode: 0o600)
    let text = Self.text("client_secret_file", path) + "\ntoken_endpoint_auth_method = \"none\""
    #expect(
      try fixture.complaint(text)
        == "grantd.toml:5: [provider.work] has a client secret, and \"token_endpoint_auth_method\" is \"none\": remove "
        + "one of them")
  }
}
