import BrokerAPI

extension Tool {
  public static let all: [Tool] =
    [git, docker, kubectl, aws, gcp, gcloud, vault, pip, uv, cargo, go, terraform] + mail + [rclone, prometheus]
    + mcpClients

  public static var names: [String] { all.map(\.name) }

  /// The helper that the tool calls, as `helpers` of helper.toml names it.
  public var helper: String { ["pip", "uv"].contains(name) ? PythonKeyring.name : name }

  static let git = Tool(name: "git", need: .host) { target in
    let server = target.host + target.path
    // git keeps the path from its helpers otherwise, and one token would be for the whole host.
    let usesPath = target.path.isEmpty ? [] : ["\tuseHttpPath = true"]
    let lines =
      ["[credential \"\(target.place?.scheme == "http" ? "http" : "https")://\(server)\"]"] + usesPath + [
        "\thelper =",
        "\thelper = \(ToolTarget.quoted("!\(target.helperCommand("git")) --account \(target.accountWord)"))",
      ]
    // If two sections match, the last one applies: the one with the path.
    let block = TextBlock(
      label: "git \(target.account) \(server)", text: lines.joined(separator: "\n"),
      position: .beforePaths(of: server))
    return ToolConfiguration(edits: [.text(TextEdit("$HOME/.gitconfig", block))])
  }

  static let docker = Tool(name: "docker", need: .host) { target in
    ToolConfiguration(
      edits: [
        .json(
          file: "$HOME/.docker/config.json", JSONMember(path: ["credHelpers", target.address], value: "grantd")),
        target.entry("docker", target.user.isEmpty ? [] : ["username = \(ToolTarget.quoted(target.user))"]),
      ],
      notes: [
        "docker finds the helper as docker-credential-grantd in PATH. podman, skopeo and buildah read the same file."
      ])
  }

  static let kubectl = Tool(name: "kubectl", need: .nothing, takesIDTokens: true) { target in
    let user = "grantd-\(target.account)"
    var words = [
      "set-credentials", user, "--exec-api-version=client.authentication.k8s.io/v1",
      "--exec-command=grantctl", "--exec-interactive-mode=Never",
    ]
    let arguments =
      ["helper", "kubectl"] + (target.options + target.idTokenOption).split(separator: " ").map(String.init)
      + ["--account", target.account]
    words += arguments.map { "--exec-arg=\($0)" }
    return ToolConfiguration(
      edits: [.kubectl(entry: user, write: words, undo: ["delete-user", user])],
      notes: ["Use it for a context: kubectl config set-context CONTEXT --user=\(user)"])
  }

  static let aws = Tool(name: "aws", need: .role, takesIDTokens: true) { target in
    let role = target.role ?? ""
    let lines = [
      "[profile \(target.account)]",
      "credential_process = \(target.helperCommand("aws")) --account \(target.accountWord) --role \(role)",
    ]
    return ToolConfiguration(
      edits: [target.edit("aws", "$HOME/.aws/config", lines, conflicts: [.start("[profile \(target.account)]")])])
  }

  /// Workload identity federation: the file that GOOGLE_APPLICATION_CREDENTIALS names.
  static let gcp = Tool(name: "gcp", need: .audience, takesIDTokens: true) { target in
    let type = target.isIDToken ? "id_token" : "jwt"
    let executable: JSON = [
      "command": .string("\(target.helperCommand("gcp")) --account \(target.accountWord)"), "timeout_millis": 30000,
    ]
    let file: JSON = [
      "type": "external_account", "audience": .string(target.address),
      "subject_token_type": .string("urn:ietf:params:oauth:token-type:\(type)"),
      "token_url": "https://sts.googleapis.com/v1/token", "credential_source": ["executable": executable],
    ]
    return ToolConfiguration(
      notes: [
        "Save this as a file, and set GOOGLE_APPLICATION_CREDENTIALS to its path and",
        "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1:",
      ] + file.pretty().split(separator: "\n").map(String.init))
  }

  /// Vault's JWT login (`auth/jwt/login`); OpenBao has the same.
  static let vault = Tool(name: "vault", need: .vaultRole, takesIDTokens: true) { target in
    ToolConfiguration(
      notes: [
        "Vault and OpenBao take the token at the login of their JWT method:",
        "  vault write auth/jwt/login role=\(target.role ?? "") jwt=\"$(\(target.tokenCommand)\(target.idTokenOption))\"",
        "For the agent, keep a file with it, and name it as `path` of its method jwt:",
        "  [[file]]", "  account = \"\(target.account)\"", "  path = \"vault/jwt\"",
        "  format = \"\(target.isIDToken ? "id_token" : "token")\"",
      ])
  }

  static let gcloud = Tool(name: "gcloud", need: .nothing) { target in
    ToolConfiguration(
      notes: [
        "gcloud takes a token from its environment:",
        "  grantctl exec \(target.accountWord)\(target.options) --env CLOUDSDK_AUTH_ACCESS_TOKEN -- gcloud …",
      ])
  }

  static let pip = Tool(name: "pip", need: .address) { target in
    let lines = ["[global]", "keyring-provider = subprocess", "index-url = \(target.addressWithUser)"]
    return ToolConfiguration(
      edits: [
        target.edit("pip", "$CONFIG/pip/pip.conf", lines, conflicts: [.start("[global]")]),
        target.entry("pip"),
      ], notes: ["pip runs `keyring`: put the folder with grantd's link of that name first in PATH."])
  }

  static let uv = Tool(name: "uv", need: .address) { target in
    // At the start, since a key behind a table would be the table's; a table here would take the file's own keys.
    let provider = "keyring-provider = \"subprocess\""
    let index = "url = \(ToolTarget.quoted(target.addressWithUser)), default = true"
    let block = target.block("uv", [provider, "index = [{ \(index) }]"], position: .start)
    return ToolConfiguration(
      edits: [
        .text(
          TextEdit(
            "$CONFIG/uv/uv.toml", block,
            conflicts: [.start("keyring-provider ="), .start("[[index]]"), .start("index =")],
            byHand: "\(provider), and the index \(index)")),
        target.entry("uv"),
      ],
      notes: ["uv runs `keyring`: put the folder with grantd's link of that name first in PATH."])
  }

  static let cargo = Tool(name: "cargo", need: .address) { target in
    let lines = [
      "[registries.\(target.registry)]", "index = \(ToolTarget.quoted(target.address))",
      "credential-provider = [\"cargo-credential-grantd\", \"--account\", \(ToolTarget.quoted(target.account))]",
    ]
    return ToolConfiguration(
      edits: [
        target.edit("cargo", "$HOME/.cargo/config.toml", lines, conflicts: [.start("[registries.\(target.registry)]")])
      ],
      notes: [
        "cargo finds the provider as cargo-credential-grantd in PATH. The registry's name: --registry \(target.registry)"
      ])
  }

  static let go = Tool(name: "go", need: .host) { target in
    ToolConfiguration(
      edits: [
        target.shared(
          "go", "$CONFIG/go/env", "GOAUTH=\(target.helperCommand("go"))", conflicts: [.start("GOAUTH=")]),
        target.entry("go"),
      ])
  }

  static let terraform = Tool(name: "terraform", need: .host) { target in
    // Terraform takes one credentials helper, and a host's own block before it.
    let conflicts: [TextBlock.Conflict] = [
      .start("credentials_helper"), .start("credentials \(ToolTarget.quoted(target.host)) {"),
    ]
    return ToolConfiguration(
      edits: [
        target.shared("terraform", "$HOME/.terraformrc", "credentials_helper \"grantd\" {}", conflicts: conflicts),
        target.entry("terraform"),
      ],
      notes: ["Terraform finds the helper as ~/.terraform.d/plugins/terraform-credentials-grantd, a link to grantctl."])
  }

  static let rclone = Tool(name: "rclone", need: .address) { target in
    let lines = [
      "[\(target.account)]", "type = webdav", "vendor = other", "url = \(target.address)",
      "bearer_token_command = \(target.tokenCommand)",
    ]
    return ToolConfiguration(
      edits: [target.edit("rclone", "$CONFIG/rclone/rclone.conf", lines, conflicts: [.start("[\(target.account)]")])])
  }

  static let prometheus = Tool(name: "prometheus", need: .nothing) { target in
    let file = "prometheus.service/token"
    var lines = ["  [[file]]", "  account = \"\(target.account)\"", "  path = \"\(file)\""]
    // The files of a user's broker are for that user, who needs no rule.
    if target.userBroker == nil {
      lines += [
        "  user = \"prometheus\"", "  [[rule]]", "  user = \"prometheus\"", "  accounts = [\"\(target.account)\"]",
        "  access = [\"use\"]",
      ]
    }
    let configuration = target.userBroker?.configuration ?? "/etc/grantd/grantd.toml"
    return ToolConfiguration(
      notes: ["In \(configuration), then `grantctl reload`; the broker keeps the file fresh:"] + lines + [
        "In prometheus.yml, for a job; the file is read at each request:",
        "  authorization:",
        "    credentials_file: \(target.userBroker?.files ?? "/run/grantd/files")/\(file)",
      ])
  }
}

extension ToolTarget {
  /// The account's name in the characters that cargo, and a key of TOML, take.
  var registry: String {
    String(String.UnicodeScalarView(account.unicodeScalars.map { Self.isName($0) ? $0 : "-" }))
  }

  private static func isName(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar {
    case "a"..."z", "A"..."Z", "0"..."9", "_", "-": true
    default: false
    }
  }

  /// pip and uv ask for a host's credential where the address has a user.
  var addressWithUser: String {
    guard let end = address.firstRange(of: "://"), place?.username == nil else { return address }
    let user = user.isEmpty ? BasicUsername.name(for: place) : user
    return address[..<end.upperBound] + user + "@" + address[end.upperBound...]
  }
}
