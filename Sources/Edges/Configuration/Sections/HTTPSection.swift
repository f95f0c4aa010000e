import Broker
import Grants
import OAuth

/// A handle as written.
struct HandleDraft {
  var name: String?
  var account: AccountName?
  var scopes: [String]?
  var resource: String?
}

extension Sections {
  static let mostHandles = 1000

  static let http = Section<Settings.HTTPSettings>(
    header: "[http]",
    meaning:
      "The HTTP listener for programs that cannot use the socket: `POST /token` (see [HTTP](http.md)). The kernel "
      + "identifies "
      + "the caller, and the same rules hold as on the socket; browsers are refused.",
    keys: [
      Key(
        "listen", loopbackPort, \.listen, standard: "nowhere",
        "A port of the loopback interface. Only the caller's user and unit are known there: rules on `exe` and on groups "
          + "match no "
          + "caller."),
      Key(
        "unix", socketPath, \.unix, standard: "\"http.sock\" in a user instance",
        "A Unix socket, which shows all properties of the caller. A relative path is in the folder of grantd's "
          + "socket, "
          + "for a system instance `/run/grantd`. A user instance always has one; `grantctl mcp` uses it."),
    ])

  static let handle = Section<HandleDraft>(
    header: "[[handle]]",
    meaning:
      "A name by which programs ask the token endpoint for an account, as their client id or their refresh token. It is "
      + "not a secret: a [[rule]] must allow the caller. An account's own name is a handle too.",
    keys: [
      Key("name", .handleName, \.name, "Required. The value that the program sends."),
      Key("account", .accountName, \.account, "Required. The account whose access token it gets."),
      Key(
        "scopes", .scopes, \.scopes, standard: "all that was granted",
        "The scopes of the token, if the provider can narrow."),
      Key("resource", .name, \.resource, standard: "the account's", "The resource that the token is for (RFC 8707)."),
    ])

  private static let loopbackPort = Form<LocalAddress>.localAddress.map(
    "a loopback address with a port, such as \"127.0.0.1:7817\" or \"[::1]:7817\""
  ) { address throws(Unfit) in
    guard case .loopback = address else { throw .found("a path", suggestion: "write it as unix") }
    return address
  }

  private static let socketPath = Form<String>.text.map("a path") { text throws(Unfit) in
    let names = text.split(separator: "/", omittingEmptySubsequences: false).dropFirst(text.hasPrefix("/") ? 1 : 0)
    guard text.utf8.count <= 107, !names.isEmpty, names.allSatisfy({ !["", ".", ".."].contains($0) }) else {
      throw .found(quoted(text), suggestion: "write it without \"..\", \".\" and double slashes, in 107 bytes at most")
    }
    return text
  }

}

extension Form where Output == String {
  static let handleName = text.map("a name") { text throws(Unfit) in
    guard AccountName(rawValue: text) != nil else {
      throw .found(quoted(text), suggestion: "use 1 to 64 characters of A-Z a-z 0-9 . _ @ + -")
    }
    return text
  }
}

extension HandleDraft {
  /// The handle; nil, and a report, if its keys contradict each other.
  func handle(_ section: NamedSection, report: inout ConfigurationReport) -> LoopbackSettings.Handle? {
    report.require(["name", "account"], in: section)
    guard let name, let account else { return nil }
    return .init(name: name, account: account, scopes: scopes, resource: resource)
  }
}
