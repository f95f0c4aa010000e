import Broker
import BrokerAPI
import Grants
import OAuth

/// An account in the form of a cloud's metadata, as written.
struct CloudDraft {
  enum Kind: String, CaseIterable {
    case aws
    case gcp
    case azure
  }

  var kind: Kind?
  var name: String?
  var account: AccountName?
  var token: TokenKind?
  var role: String?
  var region: String?
  var endpoint: String?
  var sessionName: String?
  var duration: Duration?
  var project: String?
  var email: String?
  var resource: String?
}

extension Sections {
  static let mostClouds = 100

  static let cloud = Section<CloudDraft>(
    header: "[[cloud]]",
    meaning:
      "An account as a cloud's SDKs find it on a machine of that cloud, over `[http]` (see [HTTP](http.md#the-clouds)). A "
      + "[[rule]] must allow the caller to use the account.",
    keys: [
      Key(
        "kind", .word(CloudDraft.Kind.allCases), \.kind,
        "Required. `aws`: container credentials; `gcp`: the metadata server of a virtual machine; `azure`: a managed identity."
      ),
      Key("name", .handleName, \.name, standard: "the kind", "In its address: `/aws/NAME`, `/azure/NAME`."),
      Key("account", .accountName, \.account, "Required. The account whose access tokens serve."),
      Key(
        "token", .word(TokenKind.allCases), \.token, standard: "\"access_token\"",
        "The token for STS, for `aws`. `id_token` takes `id_token` access."),
      Key(
        "role_arn", .name, \.role,
        "For `aws`, required: the role of the credentials that STS returns for the account's token (AssumeRoleWithWebIdentity)."
      ),
      Key("region", .name, \.region, standard: "none", "For `aws`: the region of STS."),
      Key("sts_endpoint", .name, \.endpoint, standard: "that of the region", "For `aws`: another URL of STS."),
      Key(
        "session_name", .name, \.sessionName, standard: "\"grantd\"",
        "For `aws`: the name of the session in its logs."),
      Key(
        "duration", .duration(.minutes(16)...(.hours(12))), \.duration, standard: "\"1h\"",
        "For `aws`: how long the credentials are valid."),
      Key("project", .name, \.project, standard: "none", "For `gcp`: the id of the project."),
      Key(
        "email", .name, \.email, standard: "\"default\"", "For `gcp`: the shown e-mail address of the service account."),
      Key(
        "resource", .name, \.resource, standard: "none",
        "For `azure`: the resource of the account's own token. For another one the broker requests the scope `RESOURCE/.default`."
      ),
    ])
}

extension CloudDraft {
  /// The cloud; nil, and a report, if its keys contradict each other.
  func cloud(_ section: NamedSection, report: inout ConfigurationReport) -> LoopbackSettings.Cloud? {
    report.require(["kind", "account"], in: section)
    guard let kind, let account else { return nil }
    let own: [Kind: [String]] = [
      .aws: ["token", "role_arn", "region", "sts_endpoint", "session_name", "duration"], .gcp: ["project", "email"],
      .azure: ["resource"],
    ]
    for (other, keys) in own where other != kind {
      for key in keys {
        guard section[key] != nil else { continue }
        report.problem(at: section, key, "is for kind = \"\(other.rawValue)\"")
        return nil
      }
    }
    guard let part = part(kind, section, report: &report) else { return nil }
    return .init(name: name ?? kind.rawValue, account: account, kind: part)
  }

  private func part(
    _ kind: Kind, _ section: NamedSection, report: inout ConfigurationReport
  ) -> LoopbackSettings.Cloud.Kind? {
    switch kind {
    case .gcp: return .gcp(project: project, email: email ?? "default")
    case .azure: return .azure(resource: resource)
    case .aws:
      guard let role else {
        report.require(["role_arn"], in: section)
        return nil
      }
      let parts = role.split(separator: ":", omittingEmptySubsequences: false)
      guard parts.count == 6, parts[0] == "arn", parts[2] == "iam", parts[5].hasPrefix("role/") else {
        report.problem(
          at: section, "role_arn", "is \(quoted(role))",
          suggestion: "write it whole, such as arn:aws:iam::123456789012:role/NAME")
        return nil
      }
      let domain = parts[1] == "aws-cn" ? "amazonaws.com.cn" : "amazonaws.com"
      let address = endpoint ?? "https://sts.\(region.map { $0 + "." } ?? "")\(domain)/"
      guard Endpoint.url(address, allowInsecureHTTP: false) != nil else {
        report.problem(at: section, "sts_endpoint", "is \(quoted(address))", suggestion: "write an https address")
        return nil
      }
      return .aws(
        .init(
          arn: role, endpoint: address, token: token ?? .accessToken, sessionName: sessionName ?? "grantd",
          duration: Int((duration ?? .hours(1)).components.seconds)))
    }
  }
}
