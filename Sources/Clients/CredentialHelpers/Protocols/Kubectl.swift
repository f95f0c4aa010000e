import BrokerAPI

/// client-go's credential plugins: ExecCredential of `client.authentication.k8s.io`, v1 and v1beta1.
public struct Kubectl: CredentialProtocol {
  public static let name = "kubectl"
  public static let takesIDTokens = true

  static let group = "client.authentication.k8s.io/"
  private static let versions = ["v1", "v1beta1"]

  public let request: Request
  private let apiVersion: String

  public static func input(_ invocation: Invocation) -> InputShape { .none }

  public init(_ invocation: Invocation, input: [UInt8]) throws(Malformed) {
    guard let text = invocation.environment["KUBERNETES_EXEC_INFO"], !text.isEmpty else {
      apiVersion = Self.group + "v1"
      request = .token(HelperTokenRequest(place: nil, account: invocation.account))
      return
    }
    guard let info = try? JSON.parse(Array(text.utf8)), info["kind"]?.string == "ExecCredential",
      let version = info["apiVersion"]?.string
    else { throw Malformed("KUBERNETES_EXEC_INFO is not an ExecCredential") }
    guard version.hasPrefix(Self.group), Self.versions.contains(String(version.dropFirst(Self.group.count))) else {
      throw Malformed("apiVersion \(version) is not known here: write client.authentication.k8s.io/v1")
    }
    apiVersion = version
    let cluster = info["spec"]?["cluster"]
    let place = cluster?["server"]?.string.flatMap { ServerLocation($0) }
    // The cluster's extension `client.authentication.k8s.io/exec`.
    let account = invocation.account ?? cluster?["config"]?["account"]?.string
    request = .token(HelperTokenRequest(place: place, account: account))
  }

  public func answer(_ token: IssuedToken) throws(Malformed) -> Reply {
    var status = [JSON.Member(name: "token", value: .string(token.text))]
    if let end = token.expiresAt {
      status.append(.init(name: "expirationTimestamp", value: .string(InternetTime.text(end))))
    }
    let answer: JSON = [
      "apiVersion": .string(apiVersion), "kind": "ExecCredential", "status": .object(status),
    ]
    return Reply(out: answer.serialized() + [0x0A])
  }

  public static func notFound(_ invocation: Invocation) -> Reply {
    Reply(
      err:
        "no account is mapped to this cluster: write --account NAME behind `helper kubectl` in the kubeconfig, or an "
        + "entry of helper.toml", status: 1)
  }
}
