/// The command of GOAUTH (`go help goauth`, Go 1.24): address lines, an empty line, header fields, an empty line.
public struct GoAuth: CredentialProtocol {
  public static let name = "go"

  public let request: Request
  private let place: ServerLocation?
  private let takesBasicOnly: Bool

  /// Go runs the command a second time, with the address that was refused, and the response on standard input.
  private static func address(_ invocation: Invocation) -> String? {
    invocation.arguments.last.flatMap { $0.contains("://") ? $0 : nil }
  }

  public static func input(_ invocation: Invocation) -> InputShape {
    address(invocation) == nil ? .none : .blankLine
  }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    // Any server that refuses a request would get the token.
    guard invocation.account == nil else {
      throw Malformed("go asks for each host that refuses a request: --account is not possible, write helper.toml")
    }
    guard let address = Self.address(invocation) else {
      // The first run, before any request: no token is needed yet.
      (place, takesBasicOnly, request) = (nil, false, .answered(Reply()))
      return
    }
    guard let place = ServerLocation(address) else { throw Malformed("go's address is not a URL") }
    let challenges = Self.challenges(input)
    takesBasicOnly = challenges.contains("basic") && !challenges.contains("bearer")
    self.place = place
    request = .token(HelperTokenRequest(place: place, account: nil))
  }

  private static func challenges(_ input: [UInt8]) -> [String] {
    String(decoding: input, as: UTF8.self).split(whereSeparator: \.isNewline).compactMap { line in
      guard let colon = line.firstIndex(of: ":"), line[..<colon].lowercased() == "www-authenticate" else { return nil }
      return line[line.index(after: colon)...].split(separator: " ").first?.lowercased()
    }
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    guard let place else { return Reply() }
    // Go does not compare a user in the URL.
    let host = place.host.description.contains(":") ? "[\(place.host)]" : place.host.description
    let server = "\(place.scheme ?? "https")://\(host)\(place.port.map { ":\($0)" } ?? "")\(token.path ?? "")"
    var field = "Bearer \(token.text)"
    if takesBasicOnly {
      field = "Basic " + Base64.encoded("\(token.username ?? BasicUsername.name(for: place)):\(token.text)".utf8)
    }
    return Reply(text: "\(server)\n\nAuthorization: \(field)\n\n")
  }

  public static func notFound(_ invocation: Invocation) -> Reply { Reply() }
}
