extension DemoServer.Settings {
  /// The control API's form: durations in seconds.
  var json: DemoServer.JSON {
    [
      "access_ttl": .double(accessTTL.asSeconds), "refresh_ttl": .double(refreshTTL.asSeconds),
      "rotation": .string(rotation.rawValue), "grace": .double(grace.asSeconds),
      "approve": .string(approve.rawValue), "id_token_on_refresh": .bool(idTokenOnRefresh),
      "refresh_needs_offline_access": .bool(refreshNeedsOfflineAccess), "token_extra": .object(tokenExtra),
      "id_token_extra": .object(idTokenExtra), "discovery_extra": .object(discoveryExtra),
      "userinfo_extra": .object(userinfoExtra),
    ]
  }

  /// These settings with the members of `patch` in place of theirs.
  func patched(by patch: [String: DemoServer.JSON]) throws(ControlFailure) -> Self {
    var settings = self
    for (name, value) in patch {
      let understood: Bool
      switch name {
      case "access_ttl": understood = value.assign(to: &settings.accessTTL)
      case "refresh_ttl": understood = value.assign(to: &settings.refreshTTL)
      case "rotation": understood = value.assign(to: &settings.rotation)
      case "grace": understood = value.assign(to: &settings.grace)
      case "approve": understood = value.assign(to: &settings.approve)
      case "id_token_on_refresh": understood = value.assign(to: &settings.idTokenOnRefresh)
      case "refresh_needs_offline_access": understood = value.assign(to: &settings.refreshNeedsOfflineAccess)
      case "token_extra": understood = value.assign(to: &settings.tokenExtra)
      case "id_token_extra": understood = value.assign(to: &settings.idTokenExtra)
      case "discovery_extra": understood = value.assign(to: &settings.discoveryExtra)
      case "userinfo_extra": understood = value.assign(to: &settings.userinfoExtra)
      default: throw ControlFailure("unknown setting \(name)")
      }
      guard understood else { throw ControlFailure("\(name) cannot be \(value.text)") }
    }
    return settings
  }
}

extension DemoServer.JSON {
  fileprivate func assign(to duration: inout Duration) -> Bool {
    guard let seconds = number, seconds >= 0, seconds <= 1e9 else { return false }
    duration = .seconds(seconds)
    return true
  }

  fileprivate func assign(to flag: inout Bool) -> Bool {
    guard let bool else { return false }
    flag = bool
    return true
  }

  fileprivate func assign<Choice: RawRepresentable<String>>(to choice: inout Choice) -> Bool {
    guard let parsed = string.flatMap(Choice.init(rawValue:)) else { return false }
    choice = parsed
    return true
  }

  fileprivate func assign(to members: inout [String: Self]) -> Bool {
    guard case .object(let object) = self else { return false }
    members = object
    return true
  }
}
