import Foundation
import Testing

@testable import GrantdConfiguration

@Suite struct ErrorTests {
  private static let durations = "such as \"30s\", \"5m\" or \"1h\""

  private static let profiles =
    "7pass, auth0, dropbox, github, github-oauth, gitlab, google, google-service-account, keycloak, linkedin, microsoft, "
    + "oauth2, oidc, okta, quickbooks, salesforce, slack, slack-bot, spotify, uber, xero, zoom"

  /// A configuration, and what is printed of it.
  static let cases: [(text: String, complaint: String)] = [
    ("[calback]", "grantd.toml:1: unknown section [calback]: did you mean [callback]?"),
    ("level = \"info\"", "grantd.toml:1: unknown key \"level\" outside of any section"),
    ("\n[callback]\nprot = 1", "grantd.toml:3: unknown key \"prot\" in [callback]: did you mean \"port\"?"),
    ("[callback]\nzzzzz = 1", "grantd.toml:2: unknown key \"zzzzz\" in [callback]"),
    (
      Fixture.provider + "isuer = 1",
      "grantd.toml:4: unknown key \"isuer\" in [provider.work]: did you mean \"issuer\"?"
    ),
    ("callback = 1", "grantd.toml:1: [callback] must be a table, not a number"),
    ("[callback]\nport = \"80\"", "grantd.toml:2: \"port\" in [callback] must be a number from 0 to 65535, not a text"),
    ("[callback]\nport = 70000", "grantd.toml:2: \"port\" in [callback] must be a number from 0 to 65535, not 70000"),
    ("[callback]\nipv4 = \"yes\"", "grantd.toml:2: \"ipv4\" in [callback] must be true or false, not a text"),
    (
      "[socket]\nmode = \"999\"",
      "grantd.toml:2: \"mode\" in [socket] must be permissions in octal, such as \"0666\", not \"999\""
    ),
    ("[socket]\npath = \"here\"", "grantd.toml:2: \"path\" in [socket] must be an absolute path, not a relative one"),
    (
      "[socket]\nidle_timeout = \"10 minutes\"",
      "grantd.toml:2: \"idle_timeout\" in [socket] must be a duration from 1s to 1d, \(durations), not \"10 minutes\""
    ),
    (
      "[socket]\nidle_timeout = \"99999999999999999999d\"",
      "grantd.toml:2: \"idle_timeout\" in [socket] must be a duration from 1s to 1d, \(durations), not "
        + "\"99999999999999999999d\""
    ),
    ("[refresh]\nshare = 1.5", "grantd.toml:2: \"share\" in [refresh] must be a number from 0.05 to 1.0, not 1.5"),
    ("[refresh]\nshare = nan", "grantd.toml:2: \"share\" in [refresh] must be a number from 0.05 to 1.0, not nan"),
    (
      "[refresh]\nretry_delays = []",
      "grantd.toml:2: \"retry_delays\" in [refresh] must be a list of durations, not an empty one"
    ),
    (
      "[log]\nlevel = \"warn\"",
      "grantd.toml:2: \"level\" in [log] must be \"trace\" or \"debug\" or \"info\" or \"notice\" or \"warning\" or "
        + "\"error\", not \"warn\""
    ),
    ("[callback]\nport = 1\nport = 2", "grantd.toml:3: \"port\" is set twice: the first is in line 2"),
    ("[callback]\n[callback]", "grantd.toml:2: \"callback\" is set twice: the first is in line 1"),
    ("[rule]\nuid = 1", "grantd.toml:1: rules are written as [[rule]], with two brackets"),
    ("[[rule]]\nuid = 1\naccess = [\"use\"]", "grantd.toml:1: [[rule]] has no \"accounts\""),
    (
      "[[rule]]\nuid = 1\naccounts = [\"*\"]",
      "grantd.toml:1: [[rule]] has no \"access\": or name methods one by one with \"methods\""
    ),
    (
      "[[rule]]\nuser_unit = \"a.service\"\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:2: [[rule]] has a \"user_unit\" and no user: any user may have a unit of that name: add user or uid"
    ),
    (
      "[[rule]]\ngid = 1\nuser_unit = \"a.service\"\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:3: [[rule]] has a \"user_unit\" and no user: any user may have a unit of that name: add user or uid"
    ),
    (
      "[[rule]]\nuid = 1\nunit = \"mail sync\"\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:3: \"unit\" in [[rule]] must be a unit's name, not \"mail sync\": write it whole, such as "
        + "mail-sync.service"
    ),
    (
      "[[rule]]\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:1: [[rule]] names nothing of a caller: add user, uid, group, gid, unit, user_unit or "
        + "exe, or anyone = true for all callers"
    ),
    (
      "[[rule]]\nexe = \"/usr/bin/feed\"\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:2: [[rule]] has an \"exe\" and no user, group or unit: any user can run that program with code of "
        + "their own in it: add user, group or unit"
    ),
    (
      "[[rule]]\nuid = 1\nanyone = true\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:1: [[rule]] says anyone = true, and names something of the caller: keep one of them"
    ),
    (
      "[[rule]]\nuid = 1\nuser = \"mail\"\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:1: [[rule]] has both \"user\" and \"uid\": keep one of them"
    ),
    (
      "[[rule]]\nuser = \"nobody2\"\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:2: this system has no user \"nobody2\": create it, or correct the name"
    ),
    (
      "[[rule]]\nuid = -1\naccounts = [\"*\"]\naccess = [\"use\"]",
      "grantd.toml:2: \"uid\" in [[rule]] must be a number from 0 to 4294967294, not -1"
    ),
    (
      "[[rule]]\nuid = 1\naccounts = [\"a b\"]\naccess = [\"use\"]",
      "grantd.toml:3: \"accounts\" in [[rule]] must be a list of account names, not one with \"a b\""
    ),
    (
      "[[rule]]\nuid = 1\naccounts = [\"*\"]\naccess = [\"open\"]",
      "grantd.toml:4: \"access\" in [[rule]] must be a list of \"use\", \"id_token\", \"login\", \"observe\", \"manage\", not one with "
        + "\"open\""
    ),
    (
      "[provider.\"a b\"]",
      "grantd.toml:1: \"a b\" is not a name for a provider: use 1 to 64 characters of A-Z a-z 0-9 . _ @ + -"
    ),
    (
      "[provider]\nkind = \"oidc\"",
      "grantd.toml:2: \"kind\" in [provider] must be a table: providers are written as [provider.NAME]"
    ),
    (
      "\n[provider.work]\nissuer = \"https://login.example.com\"",
      "grantd.toml:2: [provider.work] has no \"client_id\": register a client at the provider, and write its id here"
    ),
    (
      "[provider.work]\nclient_id = \"x\"",
      "grantd.toml:1: [provider.work] has no \"issuer\": write it as the provider does, such as "
        + "https://login.example.com"
    ),
    (
      "[provider.work]\nkind = \"oauth2\"\nclient_id = \"x\"",
      "grantd.toml:1: [provider.work] has no \"authorization_endpoint\", no \"token_endpoint\": add them, or an issuer "
        + "for discovery"
    ),
    (
      Fixture.provider + "discovery = false\nauthorization_endpoint = \"https://a.example/\"",
      "grantd.toml:1: [provider.work] has no \"token_endpoint\", no \"jwks_uri\": add them, or leave discovery on"
    ),
    (
      "[provider.work]\nclient_id = \"x\"\nissuer = \"http://login.example.com\"",
      "grantd.toml:3: \"issuer\" in [provider.work]: the issuer “http://login.example.com” is not https: use https, or "
        + "set allow_insecure_http for this provider if you must"
    ),
    (
      Fixture.provider + "token_endpoint = \"http://a.example/\"",
      "grantd.toml:4: \"token_endpoint\" in [provider.work] must be an https URL without user or fragment: use https, "
        + "or set allow_insecure_http for this provider if you must"
    ),
    (
      Fixture.provider + "token_endpoint = \"/token\"",
      "grantd.toml:4: \"token_endpoint\" in [provider.work] must be an https URL without user or fragment"
    ),
    (
      Fixture.provider + "resource = \"thing\"",
      "grantd.toml:4: \"resource\" in [provider.work] must be an absolute URI without a fragment"
    ),
    (
      Fixture.provider + "kind = \"oidcc\"",
      "grantd.toml:4: \"kind\" in [provider.work] must be \"oidc\" or \"oauth2\" or \"vms\" or \"zephr\", not "
        + "\"oidcc\": did you mean \"oidc\"?"
    ),
    (
      Fixture.provider + "discovery = true",
      "grantd.toml:4: \"discovery\" in [provider.work] must be \"openid\", \"oauth\", \"openid_inserted\" or false, not true"
    ),
    (
      Fixture.provider + "rotation = \"grace\"",
      "grantd.toml:4: \"rotation\" in [provider.work] must be \"none\", \"strict\" or \"grace 30s\", not \"grace\""
    ),
    (
      Fixture.provider + "redirect_uri = \"http://127.0.0.2/cb\"",
      "grantd.toml:4: \"redirect_uri\" in [provider.work]: a loopback address without a port must be "
        + "http://127.0.0.1/…, http://[::1]/… or http://localhost/…"
    ),
    (
      Fixture.provider + "authorization_parameters = { state = \"x\" }",
      "grantd.toml:4: \"authorization_parameters\" in [provider.work]: \"state\" is set by the broker itself: remove it"
    ),
    (
      Fixture.provider + "token_headers = { Authorization = \"x\" }",
      "grantd.toml:4: \"token_headers\" in [provider.work]: \"Authorization\" is set by the broker itself: remove it"
    ),
    (
      Fixture.provider + "token_headers = { Expect = \"x\" }",
      "grantd.toml:4: \"token_headers\" in [provider.work]: \"Expect\" belongs to the connection: remove it"
    ),
    (
      Fixture.provider + "token_parameters = { a = 1 }",
      "grantd.toml:4: \"token_parameters\" in [provider.work] must be a table of texts, not one where \"a\" is a number"
    ),
    (
      Fixture.provider + "scopes = [\"a b\"]",
      "grantd.toml:4: \"scopes\" in [provider.work] must be a list of scopes, not one with \"a b\""
    ),
    (
      Fixture.provider + "id_token_algorithms = [\"none\"]",
      "grantd.toml:4: \"id_token_algorithms\" in [provider.work] must be a list of signature algorithms, not one with "
        + "\"none\""
    ),
    (
      Fixture.provider + "token_endpoint_auth_method = \"client_secret_post\"",
      "grantd.toml:4: \"token_endpoint_auth_method\" in [provider.work] is \"client_secret_post\", and there is no "
        + "client secret: add client_secret_file or client_secret_credential"
    ),
    (
      "[provider.work]\nprofile = \"googel\"\nclient_id = \"x\"",
      "grantd.toml:2: unknown profile \"googel\" in [provider.work]; known are \(profiles): did you mean \"google\"?"
    ),
    (
      "[provider.work]\nprofile = \"../google\"\nclient_id = \"x\"",
      "grantd.toml:2: unknown profile \"../google\" in [provider.work]; known are \(profiles)"
    ),
    (
      "[provider.work]\nprofile = \"gitlab\"\nclient_id = \"x\"\nhost = \"a/b\"",
      "grantd.toml:4: \"host\" in [provider.work] must be a text of letters, digits and . _ : -, not \"a/b\""
    ),
    (
      "[provider.work]\nprofile = \"gitlab\"\nclient_id = \"x\"\nhots = \"a\"",
      "grantd.toml:4: unknown key \"hots\" in [provider.work]: did you mean \"host\"?"
    ),
  ]

  @Test("Each mistake is said with file, line and what to do", arguments: cases)
  func says(text: String, complaint: String) throws {
    #expect(try Fixture().complaint(text) == complaint)
  }

  private static let rest = "\naccounts = [\"*\"]\naccess = [\"use\"]"

  @Test(
    "What follows from a mistake is not said beside it",
    arguments: [
      (
        "[[rule]]\nuid = 1\nconfirm = \"yes\"\nconfirm_timeout = \"30s\"" + rest,
        "grantd.toml:3: \"confirm\" in [[rule]] must be true or false, not a text"
      ),
      (
        "[[rule]]\nuid = 1\nconfrim = true\nconfirm_timeout = \"30s\"" + rest,
        "grantd.toml:3: unknown key \"confrim\" in [[rule]]: did you mean \"confirm\"?"
      ),
      ("[[rule]]\nusr = \"mail\"" + rest, "grantd.toml:2: unknown key \"usr\" in [[rule]]: did you mean \"user\"?"),
      (
        "[[rule]]\nusr = \"mail\"\nuser_unit = \"a.service\"" + rest,
        "grantd.toml:2: unknown key \"usr\" in [[rule]]: did you mean \"user\"?"
      ),
      (
        "[[rule]]\ngrp = \"mail\"\ngropu = \"mail\"\nexe = \"/usr/bin/feed\"" + rest,
        "grantd.toml:2: unknown key \"grp\" in [[rule]]\n"
          + "grantd.toml:3: unknown key \"gropu\" in [[rule]]: did you mean \"group\"?"
      ),
      (
        "[[rule]]\nanyone = 1" + rest, "grantd.toml:2: \"anyone\" in [[rule]] must be true or false, not a number"
      ),
      (
        "[[rule]]\nuid = 1\naccount = [\"*\"]\naccess = [\"use\"]",
        "grantd.toml:3: unknown key \"account\" in [[rule]]: did you mean \"accounts\"?"
      ),
      (
        "[[rule]]\nuid = 1\naccounts = [\"*\"]\nacess = [\"use\"]",
        "grantd.toml:4: unknown key \"acess\" in [[rule]]: did you mean \"access\"?"
      ),
    ] as [(String, String)])
  func follows(text: String, complaint: String) throws {
    #expect(try Fixture().complaint(text) == complaint)
  }

  @Test("What is missing is said beside a key that is near to nothing, and where a key says no")
  func notFollowing() throws {
    for keys in ["colour = 1", "anyone = false"] {
      #expect(try Fixture().complaint("[[rule]]\n\(keys)\(Self.rest)").contains("names nothing of a caller"))
    }
    #expect(
      try Fixture().complaint("[[rule]]\nuid = 1\nconfirm = false\nconfirm_timeout = \"30s\"\(Self.rest)")
        == "grantd.toml:4: [[rule]] has a \"confirm_timeout\" and nothing to confirm: add confirm = true")
  }

  @Test(
    "Durations that are given as examples may be written there",
    arguments: [
      (
        "[[rule]]\nuid = 1\nconfirm = true\nconfirm_timeout = \"1s\"" + rest,
        "from 5s to 5m, such as \"30s\" or \"5m\", not"
      ),
      ("[audit]\nkeep = \"1s\"", "from 1h to 3650d, such as \"1h\" or \"90d\", not"),
      ("[refresh]\nexpiry_notice = \"900d\"", "from 0s to 365d, such as \"30s\", \"5m\", \"1h\" or \"90d\", not"),
    ] as [(String, String)])
  func durationExamples(text: String, words: String) throws {
    #expect(try Fixture().complaint(text).contains(words))
  }

  @Test("Without templates it says where they were looked for")
  func noTemplates() throws {
    let fixture = try Fixture()
    try fixture.write("grantd.toml", "[provider.work]\nprofile = \"oidc\"\nclient_id = \"x\"")
    let folders = ["\(fixture.folder)/none", "\(fixture.folder)/nor-here"]
    #expect(
      fixture.complaint(fixture.sources(templates: folders))
        == "grantd.toml:2: unknown profile \"oidc\" in [provider.work]; there are no templates in none, nor-here: install "
        + "them there, or name their folder with --templates")
  }

  @Test("A syntax error has its line and column, and nothing of the text")
  func syntax() throws {
    let fixture = try Fixture()
    for line in ["client_secret = tops3cret", "client_secret = \"tops3cret", "tops3cret", "a = 'tops3cret' tops3cret"] {
      let complaint = try fixture.complaint("[provider.work]\n\(line)\n")
      #expect(complaint.hasPrefix("grantd.toml:2:"), "\(complaint)")
      #expect(complaint.contains(": is not valid TOML: "), "\(complaint)")
      #expect(!complaint.contains("s3cret"), "\(complaint)")
    }
  }

  @Test("All mistakes of a file are said, in their order, to a limit")
  func collects() throws {
    let complaint = try Fixture().complaint("[callback]\nport = -1\nipv5 = 1\n[log]\nlevel = 1")
    #expect(
      complaint.split(separator: "\n").map { $0.prefix(14) } == ["grantd.toml:2:", "grantd.toml:3:", "grantd.toml:5:"])
    let many = (1...25).map { "zzzzzz\($0) = 1" }.joined(separator: "\n")
    let lines = try Fixture().complaint("[callback]\n" + many).split(separator: "\n")
    #expect(lines.count == ConfigurationError.limit + 1)
    #expect(lines.last == "and 5 more")
  }

  @Test("Files that cannot be read are said")
  func files() throws {
    let fixture = try Fixture()
    #expect(fixture.complaint(fixture.sources("none.toml")) == "none.toml: there is no such file")
    try fixture.write("grantd.toml", Data([0x61, 0xff, 0x0a]))
    #expect(fixture.complaint(fixture.sources()) == "grantd.toml: is not UTF-8 text")
    try fixture.write("grantd.toml", "a = 1\0")
    #expect(fixture.complaint(fixture.sources()) == "grantd.toml: is not UTF-8 text")
    try fixture.write("grantd.toml", String(repeating: "#", count: (1 << 20) + 1))
    #expect(fixture.complaint(fixture.sources()) == "grantd.toml: is larger than 1024 KiB")
    try fixture.write("grantd.toml", "", mode: 0o666)
    #expect(
      fixture.complaint(fixture.sources()) == "grantd.toml: can be written by all users: run chmod o-w on it")
    try fixture.write("folder.toml/x", "")
    #expect(fixture.complaint(fixture.sources("folder.toml")) == "folder.toml: is not a regular file")
  }

  @Test(
    "a file that may be in the middle of being written is refused, with all other problems",
    arguments: [
      ("", "grantd.toml: is empty: write its settings, or a comment if it needs none"),
      (
        "[callback]\nprot = 1",
        "grantd.toml: does not end with a newline, so its end may be missing: complete its last line\n"
          + "grantd.toml:2: unknown key \"prot\" in [callback]: did you mean \"port\"?"
      ), ("# nothing\n", "no error"),
    ])
  func incomplete(text: String, complaint: String) throws {
    let fixture = try Fixture()
    try fixture.write("grantd.toml", text)
    var sources = fixture.sources()
    sources.mustBeComplete = true
    #expect(fixture.complaint(sources) == complaint)
  }

  @Test("Without --config the default file may be absent")
  func absent() throws {
    let fixture = try Fixture()
    let settings = try Settings.load(fixture.sources("none.toml", mustExist: false))
    #expect(settings == Settings())
  }
}

extension ErrorTests {
  @Test("What is there and cannot be read is an error, also where it need not be there")
  func closed() throws {
    let fixture = try Fixture()
    try FileManager.default.createSymbolicLink(
      atPath: "\(fixture.folder)/grantd.toml", withDestinationPath: "\(fixture.folder)/none")
    #expect(fixture.complaint(fixture.sources(mustExist: false)) == "grantd.toml: there is no such file")
    try fixture.write("other.d", "")
    #expect(fixture.complaint(fixture.sources("other.toml", mustExist: false)) == "other.d: cannot be listed")
  }

  @Test("A NUL that is written as an escape is refused")
  func escapedNUL() throws {
    #expect(
      try Fixture().complaint("[store]\npath = \"/a\\u0000b\"")
        == "grantd.toml:2: has an escaped NUL (\\u0000): remove it")
  }
}
