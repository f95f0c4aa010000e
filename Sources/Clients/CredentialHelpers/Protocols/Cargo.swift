import BrokerAPI

/// Cargo's credential provider protocol, version 1: one line of JSON each way.
public struct Cargo: CredentialProtocol {
  public static let name = "cargo"
  public static let programs = ["cargo-credential-grantd"]

  public let request: Request

  public static func greeting(_ invocation: Invocation) -> [UInt8] { Array("{\"v\":[1]}\n".utf8) }

  public static func input(_ invocation: Invocation) -> InputShape { .line }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    let line = input.prefix { $0 != 0x0A }
    // Cargo ends the input of a provider that it does not need.
    guard !line.isEmpty else {
      request = .answered(Reply())
      return
    }
    guard let asked = try? JSON.parse(line), let kind = asked["kind"]?.string else {
      throw Malformed("cargo's request is not a JSON object with a kind")
    }
    guard asked["v"]?.integer == 1 else { throw Malformed("cargo speaks another version of the protocol") }
    guard kind == "get" else {
      request = .answered(Self.error(["kind": "operation-not-supported"]))
      return
    }
    guard let address = asked["registry"]?["index-url"]?.string, let place = ServerLocation(address) else {
      throw Malformed("cargo's registry has no address")
    }
    let arguments = (asked["args"]?.array ?? []).compactMap(\.string)
    request = .token(HelperTokenRequest(place: place, account: invocation.account ?? Self.account(arguments)))
  }

  private static func account(_ arguments: [String]) -> String? {
    for (index, argument) in arguments.enumerated() {
      if argument.hasPrefix("--account=") { return String(argument.dropFirst("--account=".count)) }
      if argument == "--account", index + 1 < arguments.count { return arguments[index + 1] }
    }
    return nil
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    // Cargo sends the token as the whole header field `Authorization`.
    var answer: [JSON.Member] = [
      .init(name: "kind", value: "get"), .init(name: "token", value: .string("Bearer " + token.text)),
      .init(name: "cache", value: token.expiresAt == nil ? "session" : "expires"),
    ]
    if let end = token.expiresAt { answer.append(.init(name: "expiration", value: .integer(end))) }
    answer.append(.init(name: "operation_independent", value: true))
    return Self.line(["Ok": .object(answer)])
  }

  public static func notFound(_ invocation: Invocation) -> Reply { error(["kind": "url-not-supported"]) }

  public static func refusal(_ problem: Problem, _ invocation: Invocation) -> Reply {
    error(["kind": "other", "message": .string(problem.line), "caused-by": []])
  }

  private static func error(_ members: JSON) -> Reply { line(["Err": members]) }
  private static func line(_ json: JSON) -> Reply { Reply(out: json.serialized() + [0x0A]) }
}
