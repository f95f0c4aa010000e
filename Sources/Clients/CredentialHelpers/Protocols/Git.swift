/// git-credential(1) and gitcredentials(7): `get`, `store`, `erase` over lines of `key=value`.
public struct Git: CredentialProtocol {
  public static let name = "git"
  public static let programs = ["git-credential-grantd"]

  /// git's own bound of a line.
  private static let longestLine = 65_535

  public let request: Request
  private let place: ServerLocation?
  private let takesAuthType: Bool
  private let wantsBearer: Bool

  public static func input(_ invocation: Invocation) -> InputShape {
    ["get", "store", "erase"].contains(invocation.arguments.first) ? .blankLine : .none
  }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    let verb = invocation.arguments.first
    guard let verb, ["get", "store", "erase"].contains(verb) else {
      (place, takesAuthType, wantsBearer) = (nil, false, false)
      // Since git 2.46 a helper may be asked for its capabilities; unknown actions must be ignored.
      request = .answered(Reply(text: verb == "capability" ? "version 0\ncapability authtype\n" : ""))
      return
    }
    let fields = try Fields(input)
    place = try Self.location(of: fields)
    takesAuthType = fields.lists["capability[]"]?.contains("authtype") ?? false
    let challenges = (fields.lists["wwwauth[]"] ?? []).compactMap { $0.split(separator: " ").first?.lowercased() }
    wantsBearer = challenges.contains("bearer") && !challenges.contains("basic")
    let wanted = HelperTokenRequest(place: place, username: fields.values["username"], account: invocation.account)
    let secret = fields.values["password"] ?? fields.values["credential"]
    switch verb {
    case "get": request = place == nil ? .answered(Reply()) : .token(wanted)
    case "erase":
      // Each helper receives each secret, including those of other helpers.
      if let secret, place != nil { request = .rejected(wanted, secret: secret) } else { request = .answered(Reply()) }
    default: request = .answered(Reply())
    }
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    guard token.text.utf8.count < Self.longestLine - 16 else {
      throw Malformed("git reads no line as long as this token")
    }
    var lines: [String]
    if takesAuthType && (token.isBearer || wantsBearer) {
      lines = ["capability[]=authtype", "authtype=Bearer", "credential=\(token.text)", "ephemeral=1"]
    } else {
      // Without a user name git would ask the user for one.
      lines = ["username=\(token.username ?? BasicUsername.name(for: place))", "password=\(token.text)"]
    }
    if let end = token.expiresAt { lines.append("password_expiry_utc=\(end)") }
    return Reply(text: lines.map { $0 + "\n" }.joined())
  }

  public static func notFound(_ invocation: Invocation) -> Reply { Reply() }

  public static func refusal(_ problem: Problem, _ invocation: Invocation) -> Reply {
    // Without `quit` git would ask the user for a password that does not exist.
    let quits = problem.isOurs && invocation.arguments.first == "get"
    return Reply(text: quits ? "quit=1\n" : "", err: problem.line)
  }

  /// Nil where no host is asked about (`protocol=cert`).
  private static func location(of fields: Fields) throws(Malformed) -> ServerLocation? {
    guard let host = fields.values["host"], !host.isEmpty else { return nil }
    guard let (name, port) = ServerLocation.hostAndPort(host[...]) else {
      throw Malformed("git's host is not a host name")
    }
    let path = fields.values["path"].map { $0.hasPrefix("/") ? $0 : "/" + $0 } ?? ""
    return ServerLocation(
      scheme: (fields.values["protocol"] ?? "https").lowercased(), host: name, port: port, path: path)
  }

  private struct Fields {
    var values: [String: String] = [:]
    var lists: [String: [String]] = [:]

    /// A key that is repeated has its last value, as git has it; of `key[]` all count.
    init(_ input: [UInt8]) throws(Malformed) {
      for line in input.split(separator: 0x0A, omittingEmptySubsequences: false) {
        let line = line.last == 0x0D ? line.dropLast() : line
        guard !line.isEmpty else { break }
        guard let text = String(validating: line, as: UTF8.self), !text.contains("\0") else {
          throw Malformed("git's input is not UTF-8")
        }
        // By bytes: a combining character would hide the sign before it.
        guard let equals = text.utf8.firstIndex(of: UInt8(ascii: "=")) else {
          throw Malformed("git's input has a line without =")
        }
        let (key, value) = (
          String(text[..<equals]), String(Substring(text.utf8[equals...].dropFirst()))
        )
        if key.hasSuffix("[]") {
          // An empty value clears the list.
          lists[key] = value.isEmpty ? [] : (lists[key] ?? []) + [value]
        } else if key == "url" {
          try apply(url: value)
        } else {
          values[key] = value
        }
      }
    }

    private mutating func apply(url: String) throws(Malformed) {
      guard let place = ServerLocation(url) else { throw Malformed("git's url is not a URL") }
      values["protocol"] = place.scheme
      values["host"] = place.port.map { "\(place.host):\($0)" } ?? place.host.description
      values["path"] = place.path
      values["username"] = place.username ?? values["username"]
    }
  }
}
