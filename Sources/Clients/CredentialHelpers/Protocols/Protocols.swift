/// Every protocol.
public enum Protocols {
  public static let all: [any CredentialProtocol.Type] = [
    Git.self, PythonKeyring.self, Docker.self, Kubectl.self, Cargo.self, GoAuth.self, Bazel.self, Terraform.self,
    GoogleExecutable.self,
    AWS.self,
  ]

  public static var names: [String] { all.map { $0.name } }

  public static func named(_ name: String) -> (any CredentialProtocol.Type)? { all.first { $0.name == name } }

  /// By the last component of `argv[0]`.
  public static func program(_ name: String) -> (any CredentialProtocol.Type)? {
    all.first { $0.programs.contains(name) }
  }
}
