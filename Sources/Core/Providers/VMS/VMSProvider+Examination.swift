import FoundationEssentials
public import Grants
public import OAuth

// Checks that need no sign-in.
extension VMSProvider {
  public func examineSettings() -> Finding {
    let replacing = settings.replacing.map { ", replaces sessions: \($0.rawValue)" } ?? ""
    let text =
      "vms at \(settings.site.baseURL.absoluteString), client \(settings.clientName) "
      + "\(settings.clientVersion)\(replacing)"
    return settings.site.finding(text.printable(limit: 300))
  }

  public func probe() -> HTTPRequest? {
    // A fixed device ID that no installation has: this request concerns no installation.
    request(.discovery, "GET", ["static", "basic"], device: "00000000-0000-0000-0000-000000000000")
  }

  public func examine(_ response: HTTPResponse?) -> Examination {
    let endpoints = response.map(judge) ?? Finding(.endpoints, .skipped, "not asked")
    return settings.site.examination(endpoints, kind: description.kind, metadata: try? metadata(from: nil))
  }

  private func judge(_ response: HTTPResponse) -> Finding {
    let place = url(["static", "basic"]).absoluteString
    let check = "Check base_url in \(name.section); `curl -i \(place)` shows the answer. Then `grantctl reload`."
    if response.status == 409 {
      let hint = "Set client_version and client_name in \(name.section), then `grantctl reload`."
      return Finding(.endpoints, .failed(hint: hint), tooOld(response).message)
    }
    guard response.isSuccess, let members = response.json?.dictionary else {
      let message =
        response.isSuccess ? "\(place): the answer is not a JSON object" : "\(place) answers \(response.account)"
      let isOutage = response.isSuccess ? false : response.refusal.isOfProvider
      let hint = isOutage ? "Nothing to change here: wait. The broker asks again automatically." : check
      return Finding(.endpoints, .failed(hint: hint), message)
    }
    let version = members.text("version").map { " \($0.printable(limit: 64))" } ?? ""
    guard Self.isEnabled(members) else {
      let hint = "Its operator can turn external login on; until then no login is possible here."
      return Finding(.endpoints, .failed(hint: hint), Self.disabled)
    }
    return Finding(.endpoints, .ok, "version\(version.isEmpty ? " not said" : version), external login is on")
  }
}

extension SiteSettings {
  /// The finding for the settings.
  func finding(_ text: String) -> Finding {
    let isPlain = !(Endpoint.url(baseURL.absoluteString, allowInsecureHTTP: false) != nil)
    guard isPlain else { return Finding(.configuration, .ok, text) }
    return Finding(
      .configuration, .warning(hint: "Use https, and take allow_insecure_http out of \(name.section)."),
      "allow_insecure_http is on: codes and tokens travel readable by others")
  }

  /// The result of a check of such a system. Most checks concern OAuth and do not apply.
  func examination(_ endpoints: Finding, kind: String, metadata: ServerMetadata?) -> Examination {
    let absent: [(Finding.Name, String)] = [
      (.discovery, "there are no metadata: the addresses are fixed"), (.issuer, "it has none"),
      (.grantTypes, "people sign in, and nothing is refreshed"),
      (.clientAuthentication, "clients do not prove themselves"),
      (.pkce, "it does not know it"), (.scopes, "it has none"),
    ]
    let skipped = absent.map { Finding($0.0, .skipped, "kind \(kind): \($0.1)") }
    return Examination(findings: [endpoints] + skipped, metadata: metadata)
  }
}
