import Testing

@testable import GrantdConfiguration

@Suite struct PublicURLTests {
  static let provider = Fixture.provider + "redirect_uri = \"https://broker.example.com/callback\"\n"

  @Test(
    "The public URL is an origin, however it is written",
    arguments: [
      ("https://broker.example.com", "https://broker.example.com"),
      ("https://broker.example.com/", "https://broker.example.com"),
      ("HTTPS://Broker.Example.COM", "https://broker.example.com"),
      ("https://broker.example.com:443", "https://broker.example.com"),
      ("https://broker.example.com:8443", "https://broker.example.com:8443"),
      ("https://[2001:db8::1]", "https://[2001:db8::1]"),
    ])
  func origin(text: String, origin: String) throws {
    let settings = try Fixture().load("[callback]\nport = 8400\npublic_url = \"\(text)\"")
    #expect(settings.callback.publicOrigin == origin)
  }

  @Test(
    "What is no https origin is refused",
    arguments: [
      ("http://broker.example.com", "browsers must come by https, since codes are in the addresses" as String?),
      (
        "https://broker.example.com/callback",
        "write \"https://broker.example.com\": each redirect_uri has its own path"
      ),
      ("https://broker.example.com/?a=b", "write \"https://broker.example.com\": each redirect_uri has its own path"),
      ("https://ann@broker.example.com", "write \"https://broker.example.com\": each redirect_uri has its own path"),
      ("myapp://broker.example.com", "browsers must come by https, since codes are in the addresses"),
      ("broker.example.com", nil), ("https://", nil), ("https:///callback", nil),
      ("https://broker.example.com/#a", nil),
    ])
  func refused(text: String, suggestion: String?) throws {
    let complaint = try Fixture().complaint("[callback]\npublic_url = \"\(text)\"")
    #expect(
      complaint == "grantd.toml:2: \"public_url\" in [callback] must be an address such as "
        + "\"https://broker.example.com\", not \"\(text)\"" + (suggestion.map { ": \($0)" } ?? ""))
  }

  static let doubtful: [(text: String, warning: String?)] = [
    (provider + "[callback]\nport = 8400\npublic_url = \"https://broker.example.com\"", nil),
    (
      provider + "[callback]\npublic_url = \"https://broker.example.com\"",
      "grantd.toml:6: [callback] has public_url and no port: the proxy cannot know which one to pass on to"
    ),
    (
      Fixture.provider + "[callback]\nport = 1\npublic_url = \"https://broker.example.com\"",
      "grantd.toml:6: [callback] has public_url, and no provider has its redirect_uri at https://broker.example.com"
    ),
    (
      provider + "[callback]\nport = 1\npublic_url = \"https://broker.example.com:8443\"",
      "grantd.toml:7: [callback] has public_url, and no provider has its redirect_uri at "
        + "https://broker.example.com:8443"
    ),
    (
      provider + "[callback]\nenabled = false\npublic_url = \"https://broker.example.com\"",
      "grantd.toml:7: [callback] has public_url, and is off: nothing is there to pass callbacks on to"
    ),
    (
      "[provider.cameras]\nkind = \"vms\"\nbase_url = \"https://vms.example.com\"\n"
        + "redirect_uri = \"https://broker.example.com/cameras\"\n"
        + "[callback]\nport = 1\npublic_url = \"https://broker.example.com\"",
      "grantd.toml:1: [provider.cameras] has its redirect_uri at public_url, and nothing in its answers names a login: "
        + "every client of the proxy can end another's"
    ),
  ]

  @Test("A public URL that cannot work is warned of, with its place", arguments: doubtful)
  func warns(text: String, warning: String?) throws {
    let fixture = try Fixture()
    let found = try fixture.load(text).warnings.map { $0.replacing("\(fixture.folder)/", with: "") }
    #expect(found == (warning.map { [$0] } ?? []))
  }
}
