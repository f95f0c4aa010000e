import FoundationEssentials
public import Grants
public import OAuth

// Requests with a session: user information and logout.
extension ZephrProvider {
  public func authorized(_ request: HTTPRequest, by token: SavedToken, of grant: SavedGrant) -> HTTPRequest {
    var request = request
    if let header = cookies(token.accessToken, Self.cookies(of: grant)).header {
      request.headers.append(.init("Cookie", header))
    }
    request.tls = settings.site.tls
    return request
  }

  /// The profile; the request also checks whether the session is valid.
  public func userInfo(of grant: SavedGrant, token: SavedToken, metadata: ServerMetadata) -> Step<UserInfo> {
    let request = request(
      .userinfo, "GET", url(["profile"]), cookies: cookies(token.accessToken, Self.cookies(of: grant)))
    return .send(request) { response, _ in
      if response.status == 401 { return .failed(.tokenRefused(message: response.account, nil)) }
      guard response.isSuccess else { return .failed(response.refusal) }
      guard let profile = response.json?.dictionary else {
        return .failed(response.unusable("it is not a JSON object"))
      }
      let subject = profile.first(at: settings.subjectMembers) ?? grant.identity?.subject ?? ""
      return .done(
        UserInfo(
          subject: subject, name: profile.first(at: ["name", "display_name"]), username: profile.text("username"),
          email: profile.first(at: ["email", "email_address", "identifiers.email_address"]), claims: response.body))
    }
  }

  // MARK: Logout

  public func revocationContext(of grant: SavedGrant, reach: String?) -> [String: String] {
    var context = ["where": reach ?? settings.logoutReach.rawValue]
    context[Memory.cookies] = Self.cookies(of: grant).header
    return context
  }

  public func revocation(
    of token: Secret, hint: String, context: [String: String], metadata: ServerMetadata
  ) -> HTTPRequest? {
    let others = Cookies(header: context[Memory.cookies] ?? "")
    return request(.revocation, "POST", url(["logout"]), cookies: cookies(token, others)).carrying([
      "where": .string(context["where"] ?? settings.logoutReach.rawValue)
    ])
  }

  public func revocationOutcome(_ response: HTTPResponse) -> RevocationOutcome { response.logoutOutcome }

  // MARK: Checks that need no sign-in

  public func examineSettings() -> Finding {
    let providers = settings.identityProviders.isEmpty ? "any" : settings.identityProviders.joined(separator: ", ")
    let text = "zephr at \(url([]).absoluteString), identity providers: \(providers)"
    return settings.site.finding(text.printable(limit: 300))
  }

  /// Requests the profile without a session: a Zephr server answers 401.
  public func probe() -> HTTPRequest? { request(.userinfo, "GET", url(["profile"]), cookies: Cookies()) }

  public func examine(_ response: HTTPResponse?) -> Examination {
    let endpoints = response.map(judge) ?? Finding(.endpoints, .skipped, "not asked")
    return settings.site.examination(endpoints, kind: description.kind, metadata: try? metadata(from: nil))
  }

  private func judge(_ response: HTTPResponse) -> Finding {
    let place = url(["profile"]).absoluteString
    switch response.status {
    case 200..<300, 401, 403:
      return Finding(.endpoints, .ok, "\(place) answers as Zephr does (HTTP \(response.status))")
    case 408, 429, 500...:
      let hint = "Nothing to change here: wait. The broker asks again automatically."
      return Finding(.endpoints, .failed(hint: hint), "\(place) answers \(response.account)")
    default:
      let hint =
        "Check base_url and path_prefix (/blaize or /zephr) in \(name.section); `curl -i \(place)` shows the "
        + "answer. Then `grantctl reload`."
      return Finding(
        .endpoints, .failed(hint: hint), "\(place) does not answer as Zephr does (HTTP \(response.status))")
    }
  }
}
