import BrokerAPI

/// The command line of Python's keyring, as pip and uv run it: `keyring get URL [USER]`, since keyring 25.2.1 with
/// `--mode creds` and `--output json`.
public struct PythonKeyring: CredentialProtocol {
  public static let name = "keyring"
  /// In a separate folder: python3-keyring has the same name.
  public static let programs = ["keyring"]

  public let request: Request
  private let place: ServerLocation?
  private let mode: Mode
  private let isJSON: Bool

  private enum Mode { case password, credentials }

  public static func input(_ invocation: Invocation) -> InputShape { .none }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    var words: [String] = []
    var mode = Mode.password
    var isJSON = false
    var rest = invocation.arguments[...]
    while let word = rest.popFirst() {
      var (name, value): (Substring, String?) = (word[...], nil)
      if word.hasPrefix("--"), let equals = word.firstIndex(of: "=") {
        (name, value) = (word[..<equals], String(word[word.index(after: equals)...]))
      }
      switch name {
      case "--mode":
        switch value ?? rest.popFirst() {
        case "creds": mode = .credentials
        case "password": mode = .password
        default: throw Malformed("keyring's --mode is creds or password")
        }
      case "--output":
        switch value ?? rest.popFirst() {
        case "json": isJSON = true
        case "plain": isJSON = false
        default: throw Malformed("keyring's --output is json or plain")
        }
      case _ where word.hasPrefix("-"): throw Malformed("keyring \(word) is not known here")
      default: words.append(word)
      }
    }
    (self.mode, self.isJSON) = (mode, isJSON)
    guard words.first == "get" else {
      throw Malformed("keyring \(words.first ?? "") is not possible: grantd keeps the accounts")
    }
    guard words.count == 2 || words.count == 3 else { throw Malformed("keyring get takes an address and a user") }
    guard let place = ServerLocation(words[1]) else {
      // Service names that are not hosts belong to other programs.
      self.place = nil
      request = .answered(Self.notFound(invocation))
      return
    }
    self.place = place
    let username = words.count == 3 && !words[2].isEmpty ? words[2] : nil
    // pip and uv also ask with only the host, if the index got no credential.
    request = .token(
      HelperTokenRequest(place: place, username: username, account: invocation.account, mayBeHTTP: place.scheme == nil))
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    let username = token.username ?? BasicUsername.name(for: place)
    guard isJSON else {
      return Reply(text: (mode == .credentials ? username + "\n" : "") + token.text + "\n")
    }
    let password = JSON.Member(name: "password", value: .string(token.text))
    let user = JSON.Member(name: "username", value: .string(username))
    return Reply(out: JSON.object(mode == .credentials ? [user, password] : [password]).serialized() + [0x0A])
  }
}
