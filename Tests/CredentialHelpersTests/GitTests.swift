import Testing

@testable import CredentialHelpers

@Suite struct GitTests {
  static let asked = "protocol=https\nhost=git.example.com:8443\n"

  @Test(
    "get asks for the host's token",
    arguments: [
      ("protocol=https\nhost=h\n\n", "https://h", nil), ("protocol=https\nhost=h", "https://h", nil),
      ("protocol=https\r\nhost=H.\r\n\r\n", "https://h", nil),
      ("protocol=http\nhost=h:8080\npath=a/b.git\n\n", "http://h:8080/a/b.git", nil),
      ("protocol=https\nhost=h\nusername=ada\n\nhost=evil\n", "https://h", "ada"),
      ("protocol=https\nhost=g\nhost=h\n\n", "https://h", nil), ("url=https://ada@h/p\n\n", "https://h/p", "ada"),
      ("protocol=https\nhost=h\npath=\u{301}a=b\n\n", "https://h/\u{301}a=b", nil),
      ("protocol=https\nhost=h\nunknown=x\nwwwauth[]=Basic realm=\"x\"\n\n", "https://h", nil),
    ] as [(String, String, String?)])
  func getAsksForTheHostsToken(input: String, place: String, username: String?) throws {
    #expect(try request(Git.self, ["get"], input) == token(place, username: username))
  }

  @Test(
    "invalid requests are refused",
    arguments: ["protocol=https\nhost=a b\n\n", "protocol\n\n", "host=h\0\n\n", "host=@\n\n", "url=x y\n\n"])
  func whatIsNoRequestIsRefused(input: String) {
    #expect(throws: Malformed.self) { try request(Git.self, ["get"], input) }
  }

  @Test("bytes that are no UTF-8 are refused") func notUTF8() {
    #expect(throws: Malformed.self) {
      try Git(Invocation(arguments: ["get"]), input: Array("host=".utf8) + [0xFF, 0x0A])
    }
  }

  @Test(
    "other actions print nothing",
    arguments: [
      (["store"], "protocol=https\nhost=h\npassword=x\n\n"), (["erase"], "protocol=https\nhost=h\n\n"), (["new"], ""),
      ([], ""), (["get"], ""), (["get"], "protocol=cert\npath=/x\n\n"),
    ])
  func otherActionsPrintNothing(arguments: [String], input: String) throws {
    #expect(try request(Git.self, arguments, input) == .answered(Reply()))
  }

  @Test("erase reports the secret") func erase() throws {
    let wanted = HelperTokenRequest(place: ServerLocation("https://h"), username: "oauth2")
    let input = "protocol=https\nhost=h\nusername=oauth2\npassword=T\n\n"
    #expect(try request(Git.self, ["erase"], input) == .rejected(wanted, secret: "T"))
    let bearer = "protocol=https\nhost=h\nusername=oauth2\nauthtype=Bearer\ncredential=T\n\n"
    #expect(try request(Git.self, ["erase"], bearer) == .rejected(wanted, secret: "T"))
  }

  @Test("the answer has a user name, the token and its end") func theAnswer() throws {
    #expect(
      try answer(Git.self, ["get"], Self.asked) == "username=oauth2\npassword=T\npassword_expiry_utc=1767229199\n")
    let named = IssuedToken(text: "T", username: "ada")
    #expect(try answer(Git.self, ["get"], Self.asked, named) == "username=ada\npassword=T\n")
    let forge = "protocol=https\nhost=bitbucket.org\n\n"
    #expect(try answer(Git.self, ["get"], forge, .init(text: "T")) == "username=x-token-auth\npassword=T\n")
  }

  @Test("Bearer is used if git can, and the server accepts nothing else or the mapping requires it") func bearer()
    throws
  {
    let able = Self.asked + "capability[]=authtype\ncapability[]=state\n"
    let bearer = "capability[]=authtype\nauthtype=Bearer\ncredential=T\nephemeral=1\n"
    let plain = "username=oauth2\npassword=T\n"
    let only = "wwwauth[]=Bearer realm=\"x\"\n"
    let table: [(String, Bool, String)] = [
      (able, false, plain), (able, true, bearer), (Self.asked, true, plain), (Self.asked + only, false, plain),
      (able + only, false, bearer), (able + only + "wwwauth[]=Basic realm=\"x\"\n", false, plain),
      (able + only + "wwwauth[]=\n", false, plain),
    ]
    for (input, isBearer, text) in table {
      #expect(try answer(Git.self, ["get"], input, .init(text: "T", isBearer: isBearer)) == text, "\(input)")
    }
  }

  @Test("git's line is not longer than git reads") func longToken() {
    let long = IssuedToken(text: String(repeating: "t", count: 65_530))
    #expect(throws: Malformed.self) { try answer(Git.self, ["get"], Self.asked, long) }
  }

  @Test("git continues to its next helper for an unknown host, and stops for a host of an account") func refusals() {
    let get = Invocation(arguments: ["get"])
    #expect(Git.notFound(get) == Reply())
    #expect(Git.refusal(Problem("x"), get) == Reply(err: "x"))
    #expect(Git.refusal(Problem("x", isOurs: true), get) == Reply(text: "quit=1\n", err: "x"))
    #expect(Git.refusal(Problem("x", isOurs: true), Invocation(arguments: ["erase"])) == Reply(err: "x"))
  }

  @Test("the input ends with an empty line") func shape() {
    let shape = Git.input(Invocation(arguments: ["get"]))
    for complete in ["\n", "a=b\n\n", "a=b\r\n\r\n", "a=b\n\nc=d"] { #expect(shape.isComplete(Array(complete.utf8))) }
    for open in ["", "a=b", "a=b\n", "a=b\r\n"] { #expect(!shape.isComplete(Array(open.utf8))) }
    #expect(Git.input(Invocation(arguments: ["capability"])) == .none)
  }
}
