extension DemoServer.Settings {
  /// One setting as the control API has it: durations in seconds.
  struct Entry: Sendable {
    typealias Path<Value> = any WritableKeyPath<DemoServer.Settings, Value> & Sendable

    var name: String
    var read: @Sendable (DemoServer.Settings) -> DemoServer.JSON
    /// False where the setting cannot be that.
    var parse: @Sendable (DemoServer.JSON, inout DemoServer.Settings) -> Bool

    static func seconds(_ name: String, _ path: Path<Duration>) -> Self {
      Self(name: name) {
        .double($0[keyPath: path].asSeconds)
      } parse: { json, settings in
        guard let seconds = json.number, (0...1e9).contains(seconds) else { return false }
        settings[keyPath: path] = .seconds(seconds)
        return true
      }
    }

    static func flag(_ name: String, _ path: Path<Bool>) -> Self {
      Self(name: name) {
        .bool($0[keyPath: path])
      } parse: { json, settings in
        guard let bool = json.bool else { return false }
        settings[keyPath: path] = bool
        return true
      }
    }

    static func number(_ name: String, _ path: Path<Int>, in range: ClosedRange<Int>) -> Self {
      Self(name: name) {
        .int($0[keyPath: path])
      } parse: { json, settings in
        guard let int = json.int, range.contains(int) else { return false }
        settings[keyPath: path] = int
        return true
      }
    }

    static func text(_ name: String, _ path: Path<String>) -> Self {
      Self(name: name) {
        .string($0[keyPath: path])
      } parse: { json, settings in
        guard let string = json.string else { return false }
        settings[keyPath: path] = string
        return true
      }
    }

    static func members(_ name: String, _ path: Path<[String: DemoServer.JSON]>) -> Self {
      Self(name: name) {
        .object($0[keyPath: path])
      } parse: { json, settings in
        guard case .object(let members) = json else { return false }
        settings[keyPath: path] = members
        return true
      }
    }

    static func choice<Choice: RawRepresentable<String> & Sendable>(_ name: String, _ path: Path<Choice>) -> Self {
      Self(name: name) {
        .string($0[keyPath: path].rawValue)
      } parse: { json, settings in
        guard let choice = json.string.flatMap(Choice.init(rawValue:)) else { return false }
        settings[keyPath: path] = choice
        return true
      }
    }
  }

  /// Every setting.
  static let entries: [Entry] = general + requests + tokens + extensions + systems

  private static let general: [Entry] = [
    .seconds("access_ttl", \.accessTTL), .seconds("refresh_ttl", \.refreshTTL), .choice("rotation", \.rotation),
    .seconds("grace", \.grace), .choice("approve", \.approve), .text("default_user", \.defaultUser),
    .flag("id_token_on_refresh", \.idTokenOnRefresh),
    .flag("nonce_on_refresh", \.nonceOnRefresh),
    .flag("refresh_needs_offline_access", \.refreshNeedsOfflineAccess), .members("token_extra", \.tokenExtra),
    .members("id_token_extra", \.idTokenExtra), .members("discovery_extra", \.discoveryExtra),
    .members("userinfo_extra", \.userinfoExtra), .members("introspection_extra", \.introspectionExtra),
  ]

  private static let requests: [Entry] = [
    .choice("oidc_metadata", \.metadata.oidc), .choice("oauth_metadata", \.metadata.oauth),
    .flag("iss_advertised", \.metadata.issAdvertised), .choice("refusal", \.authorization.refusal),
    .flag("authorize_error_page", \.authorization.errorPage), .flag("iss_on_errors", \.authorization.issOnErrors),
    .flag("nonce_required", \.authorization.nonceRequired), .flag("implicit_grant", \.authorization.implicitGrant),
    .number("max_state", \.authorization.maxState, in: 0...1_000_000),
    .flag("require_par", \.authorization.requirePAR), .seconds("par_ttl", \.authorization.parTTL),
    .number("par_status", \.authorization.parStatus, in: Limits.statusCodes),
    .members("par_extra", \.authorization.parExtra),
    .flag("require_request_object", \.authorization.requireRequestObject),
  ]

  private static let tokens: [Entry] = [
    .choice("assertion_audience", \.token.assertionAudience), .flag("basic_raw", \.token.rawBasic),
    .flag("json_bodies", \.token.jsonBodies), .flag("password_grant", \.token.passwordGrant),
    .flag("wrong_verifier_burns_code", \.token.wrongVerifierBurnsCode),
    .flag("one_token_per_second", \.token.onePerSecond), .choice("scope_answer", \.token.scopeAnswer),
    .text("token_wrap", \.token.wrap), .choice("bad_refresh", \.refresh.badToken),
    .choice("parallel_refresh", \.refresh.parallel), .choice("narrowing", \.refresh.narrowing),
    .flag("narrowed_rotates", \.refresh.narrowedRotates),
    .flag("refresh_kills_access_token", \.refresh.killsAccessToken),
  ]

  private static let extensions: [Entry] = [
    .seconds("device_interval", \.device.interval), .seconds("device_ttl", \.device.ttl),
    .flag("device_slow_down", \.device.slowDown), .choice("device_unknown", \.device.unknown),
    .choice("device_expired", \.device.expired), .flag("device_verification_url", \.device.verificationURL),
    .flag("device_complete", \.device.complete), .flag("device_id_token", \.device.idToken),
    .members("device_extra", \.device.extra), .choice("dpop", \.dpop.mode), .choice("dpop_nonce", \.dpop.nonce),
    .choice("dpop_nonce_rotation", \.dpop.nonceRotation), .choice("unauthorized", \.resource.unauthorized),
    .flag("userinfo_signed", \.resource.userinfoSigned), .flag("revocation_hint_strict", \.logout.strictHint),
    .flag("end_session_ends_grants", \.logout.endSessionEndsGrants),
    .number("registration_status", \.registration.status, in: Limits.statusCodes),
    .seconds("registration_delay", \.registration.delay), .text("registration_token", \.registration.token),
    .flag("registration_token_rotates", \.registration.tokenRotates),
    .members("registration_extra", \.registration.extra),
  ]

  var json: DemoServer.JSON {
    .object(Dictionary(uniqueKeysWithValues: Self.entries.map { ($0.name, $0.read(self)) }))
  }

  /// These settings with the members of `patch` in place of theirs.
  func patched(by patch: [String: DemoServer.JSON]) throws(ControlFailure) -> Self {
    var settings = self
    for (name, value) in patch {
      guard let entry = Self.entries.first(where: { $0.name == name }) else {
        throw ControlFailure("unknown setting \(name)")
      }
      guard entry.parse(value, &settings) else { throw ControlFailure("\(name) cannot be \(value.text)") }
    }
    return settings
  }

  /// Changes one setting by its name in the control API. Throws `Misuse` where there is none, or it cannot be that.
  public mutating func set(_ name: String, to value: DemoServer.JSON) throws(DemoServer.Misuse) {
    do throws(ControlFailure) {
      self = try patched(by: [name: value])
    } catch {
      throw DemoServer.Misuse(description: error.description)
    }
  }
}
