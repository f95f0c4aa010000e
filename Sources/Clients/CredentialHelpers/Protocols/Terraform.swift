import BrokerAPI

/// Terraform's and OpenTofu's credentials helpers: `get HOST`, `store HOST`, `forget HOST`.
public struct Terraform: CredentialProtocol {
  public static let name = "terraform"
  public static let programs = ["terraform-credentials-grantd"]

  public let request: Request

  public static func input(_ invocation: Invocation) -> InputShape {
    // Input to store is read to its end, or Terraform reports a broken pipe instead of the reason.
    verb(invocation) == "store" ? .everything : .none
  }

  /// Arguments of the configuration come before the verb.
  private static func verb(_ invocation: Invocation) -> String? { invocation.arguments.dropLast().last }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    guard let host = invocation.arguments.last else { throw Malformed("terraform-credentials-grantd takes get HOST") }
    switch Self.verb(invocation) {
    case "get":
      guard let place = ServerLocation(host), place.scheme == nil else {
        throw Malformed("terraform's host is not a host name")
      }
      request = .token(HelperTokenRequest(place: place, account: invocation.account))
    case "store", "forget":
      request = .answered(
        Reply(err: "grantd keeps the accounts: `grantctl login` and `grantctl logout` are in place of this", status: 1))
    default: throw Malformed("terraform-credentials-grantd takes get, store or forget, and a host")
    }
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    let answer: JSON = ["token": .string(token.text)]
    return Reply(out: answer.serialized() + [0x0A])
  }

  public static func notFound(_ invocation: Invocation) -> Reply { Reply(text: "{}\n") }
}
