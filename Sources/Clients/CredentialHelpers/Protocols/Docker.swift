import BrokerAPI

/// Docker's credential helper protocol, which podman, skopeo and buildah have too: `get`, `store`, `erase`, `list`.
public struct Docker: CredentialProtocol {
  public static let name = "docker"
  public static let programs = ["docker-credential-grantd"]

  /// The texts by which the programs know that they may continue without a credential.
  static let notFoundWords = "credentials not found in native keychain"

  public let request: Request
  private let server: String
  private let place: ServerLocation?

  public static func input(_ invocation: Invocation) -> InputShape {
    ["get", "store", "erase"].contains(invocation.arguments.first) ? .everything : .none
  }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    let verb = invocation.arguments.first
    let text = String(validating: input, as: UTF8.self)
    let stored = verb == "store" ? try? JSON.parse(input) : nil
    server =
      stored?["ServerURL"]?.string ?? String((text ?? "").drop(while: \.isWhitespace).prefix { !$0.isWhitespace })
    place = ServerLocation(server)
    switch verb {
    case "get":
      guard let text, text.split(whereSeparator: \.isWhitespace).count == 1, let place else {
        throw Malformed("the registry is not a host name")
      }
      request = .token(HelperTokenRequest(place: place, account: invocation.account))
    case "store":
      guard stored != nil, let place else { throw Malformed("the input of store is not a JSON object with a registry") }
      // `docker login` and `podman login` store credentials from here too.
      request = .ours(
        HelperTokenRequest(place: place, username: stored?["Username"]?.string, account: invocation.account), Reply(),
        otherwise: Problem(
          "grantd keeps no passwords, and no account is for \(place.name): name another helper for it in credHelpers"))
    case "erase": request = .answered(Reply())
    case "list": request = .answered(Reply(text: "{}\n"))
    case "version": request = .answered(Reply(text: "docker-credential-grantd \(GrantdVersion.current)\n"))
    default: throw Malformed("docker-credential-grantd takes get, store, erase, list or version")
    }
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    let answer: JSON = [
      "ServerURL": .string(server), "Username": .string(token.username ?? BasicUsername.name(for: place)),
      "Secret": .string(token.text),
    ]
    return Reply(out: answer.serialized() + [0x0A])
  }

  public static func notFound(_ invocation: Invocation) -> Reply { Reply(text: notFoundWords + "\n", status: 1) }

  /// The programs show standard output, docker not that of `get`.
  public static func refusal(_ problem: Problem, _ invocation: Invocation) -> Reply {
    Reply(text: problem.line + "\n", err: problem.line, status: 1)
  }
}
