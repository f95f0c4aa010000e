import BrokerAPI

/// The credential helper protocol of Bazel and others (EngFlow's credential-helper-spec): `get`, a URI, header fields.
public struct Bazel: CredentialProtocol {
  public static let name = "bazel"

  public let request: Request

  public static func input(_ invocation: Invocation) -> InputShape { .everything }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    guard invocation.arguments.first == "get" else { throw Malformed("the command of a credential helper is get") }
    guard let asked = try? JSON.parse(input), let address = asked["uri"]?.string, let place = ServerLocation(address)
    else {
      throw Malformed("the input is not a JSON object with a uri")
    }
    request = .token(HelperTokenRequest(place: place, account: invocation.account))
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    var answer: [JSON.Member] = [
      .init(name: "headers", value: ["Authorization": [.string("Bearer " + token.text)]])
    ]
    if let end = token.expiresAt { answer.append(.init(name: "expires", value: .string(InternetTime.text(end)))) }
    return Reply(out: JSON.object(answer).serialized() + [0x0A])
  }

  /// No header fields: the request continues without a credential.
  public static func notFound(_ invocation: Invocation) -> Reply { Reply(text: "{\"headers\":{}}\n") }
}
