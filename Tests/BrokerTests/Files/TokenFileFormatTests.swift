import BrokerAPI
import Testing

@testable import Broker

@Suite struct TokenFileFormatTests {
  private let content = TokenFileFormat.Content(
    token: "T", type: "Bearer", expiresAt: 1_767_225_600, scopes: ["a", "b"], account: "work")

  private func content(_ token: String) -> TokenFileFormat.Content {
    .init(token: token, type: "Bearer", expiresAt: nil, scopes: [], account: "work")
  }

  @Test("Each format has its text") func texts() throws {
    let rows: [(TokenFileFormat, String)] = [
      (.token, "T"), (.header, "Authorization: Bearer T\n"), (.environment(variable: "GH_TOKEN"), "GH_TOKEN=T\n"),
      (.curl(user: nil), "oauth2-bearer = \"T\"\n"),
      (.curl(user: "ada@example.com"), "oauth2-bearer = \"T\"\nuser = \"ada@example.com:\"\n"),
      (
        .json,
        #"{"access_token":"T","token_type":"Bearer","expiry":"2026-01-01T00:00:00Z","expires_at":1767225600,"#
          + #""scope":"a b","account":"work"}"# + "\n"
      ),
      (
        .template(
          try TokenTemplate("x: {{ access_token }} {{token_type}} {{expires_at}} {{expiry}} {{scope}} {{account}}")),
        "x: T Bearer 1767225600 2026-01-01T00:00:00Z a b work"
      ),
    ]
    for (format, text) in rows { #expect(format.text(of: content) == text) }
  }

  @Test("What shells, curl and JSON read otherwise is escaped") func escaped() throws {
    let token = #"a"b\c$d`e"#
    #expect(TokenFileFormat.environment(variable: "A").text(of: content(token)) == #"A="a\"b\\c\$d\`e""# + "\n")
    #expect(TokenFileFormat.curl(user: nil).text(of: content(token)) == #"oauth2-bearer = "a\"b\\c$d`e""# + "\n")
    let template = TokenFileFormat.template(try TokenTemplate(#"{"t": "{{access_token|json}}"}"#))
    #expect(try JSON.parse(Array(template.text(of: content(token))!.utf8))["t"]?.string == token)
  }

  @Test(
    "A token with spaces, line breaks or other characters than ASCII is written nowhere",
    arguments: ["", "a b", "a\nb", "é"])
  func odd(token: String) {
    for format in [TokenFileFormat.token, .header, .json, .curl(user: nil)] {
      #expect(format.text(of: content(token)) == nil)
    }
  }

  @Test(
    "Faults of a template are reported",
    arguments: [
      ("", "it has no {{access_token}}"), ("{{access_token", "“{{” has no “}}”"),
      ("{{acces_token}}", "there is no “acces_token”"), ("{{access_token|upper}}", "behind “|” only json"),
    ])
  func faults(text: String, message: String) {
    #expect {
      _ = try TokenTemplate(text)
    } throws: {
      ($0 as? TokenTemplate.Fault)?.message.hasPrefix(message) == true
    }
  }

  @Test("The record of a written file equals the file") func record() {
    let places: [TokenFile.Place] = [
      .init(path: "/a \"b\""), .init(path: "/b", member: .json(["x", "y/z"])),
      .init(path: "/c", member: .ini(section: "drive", key: "token")),
    ]
    #expect(TokenFile.Place.list(TokenFile.Place.text(of: places)) == places)
    #expect(TokenFile.Place.list("no JSON").isEmpty)
  }
}
