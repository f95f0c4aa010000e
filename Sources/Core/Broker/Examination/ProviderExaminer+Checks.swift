import BrokerAPI
import FoundationEssentials
import Grants
import OAuth

// provider.check: checks without a user and without a token. It sends new requests and changes nothing, so its findings
// are those of the next login or refresh; if the provider answers, refreshes no longer wait.
extension ProviderExaminer {
  /// A finding, and the settings that it concerns.
  struct Checked: Sendable {
    var connection: ProviderConnection
    var settings: UInt64
    var at: Timestamp
    var checks: [ProviderCheck.Check]

    /// Whether the provider was asked, and gave the answers that it should.
    var isAnswered: Bool {
      checks.contains { $0.name == .connection && $0.result == .ok }
        && !checks.contains { [.discovery, .issuer, .endpoints].contains($0.name) && $0.result == .failed }
    }
  }

  /// One request of a check may take so long.
  private nonisolated static let probeDeadline = Duration.seconds(10)
  /// A clock that is off by less is good.
  nonisolated static let noticedSkew = Duration.seconds(5)

  /// Whether a result concerns the active settings.
  func isCurrent(_ checked: Checked, of name: ProviderName) -> Bool {
    providers[name] === checked.connection && checked.connection.settings == checked.settings
  }

  /// Nil: the provider is not configured.
  func examine(_ name: ProviderName) async -> Checked? {
    guard let connection = providers[name] else { return nil }
    let (provider, settings) = (connection.provider, connection.settings)
    var found = [.init(provider.examineSettings()), conditionCheck(connection)]
    var probes: [ProviderProbe] = []
    var examination: Examination?
    if let request = provider.probe() {
      probes.append(await probe(request, connection))
      if let response = probes.last?.response { examination = provider.examine(response) }
    } else {
      examination = provider.examine(nil)
    }
    found += (examination?.findings ?? []).map { grantTypes(.init($0), of: name) }
    if let metadata = examination?.metadata {
      found.append(await keys(of: provider, metadata, connection, &probes))
      // Refreshes go there, and it need not be where the metadata are.
      if let url = metadata.endpoints[.token], !probes.contains(where: { $0.origin == ProviderProbe.origin(url) }) {
        probes.append(await probe(HTTPRequest(purpose: .discovery, method: "GET", url: url), connection))
      }
    }
    found += [connectionCheck(probes, provider: provider), clock(probes, tolerance: provider.clockTolerance)]
    found.append(await redirect(provider.authorizationTraits, connection))
    found.append(narrowing(connection))
    found += await accountChecks(provider)
    let why = examination == nil ? "without an answer" : "without metadata that can be used"
    return Checked(connection: connection, settings: settings, at: now, checks: Self.ordered(found, missing: why))
  }

  /// All names in order; unexamined ones are marked.
  private static func ordered(_ found: [ProviderCheck.Check], missing why: String) -> [ProviderCheck.Check] {
    CheckName.allCases.flatMap { name -> [ProviderCheck.Check] in
      let checks = found.filter { $0.name == name }
      guard checks.isEmpty, name != .granted_scopes, name != .refresh_token else { return checks }
      return [.init(name: name, result: .skipped, message: "cannot be checked \(why)")]
    }
  }

  private func probe(_ request: HTTPRequest, _ connection: ProviderConnection) async -> ProviderProbe {
    let (started, pool) = (system.uptime(), connection.pool(.logins))
    let result = await withTaskGroup(of: Result<HTTPResponse, TransportError>.self) { [transport, system] group in
      group.addTask {
        do throws(TransportError) {
          var request = request
          // As for the metadata themselves: these requests carry no secret.
          for _ in 0..<Limit.redirects {
            let response = try await transport.send(request, over: pool, late: nil)
            guard let next = request.redirected(by: response) else { return .success(response) }
            request = next
          }
          return .success(try await transport.send(request, over: pool, late: nil))
        } catch {
          return .failure(error)
        }
      }
      group.addTask {
        await system.sleep(Self.probeDeadline)
        let host = request.url.host ?? "the provider"
        let seconds = Self.probeDeadline.wholeSeconds
        return .failure(TransportError(.timedOut, "\(host) did not answer within \(seconds) s", cause: .silence))
      }
      defer { group.cancelAll() }
      return await group.next() ?? .failure(TransportError(.notSent, "not asked"))
    }
    return ProviderProbe(request: request, result: result, took: system.uptime() - started, endedAt: now)
  }

  // MARK: Each check

  /// Metadata that do not name `refresh_token` are harmless if an account was refreshed there.
  private func grantTypes(_ check: ProviderCheck.Check, of name: ProviderName) -> ProviderCheck.Check {
    guard check.name == .grant_types, check.result == .warning, check.message.hasSuffix("do not name refresh_token"),
      accounts.names(at: name).after(nil, most: Limit.checkedAccounts).contains(where: { account in
        accounts.peek(account).map { $0.saved.refreshToken != nil && $0.saved.generation > 1 } ?? false
      })
    else { return check }
    return .init(
      name: .grant_types, result: .ok,
      message: "authorization_code; refreshes succeed although the metadata do not name refresh_token")
  }

  /// How tokens for fewer scopes are requested, for a grant that a user signed in to.
  private func narrowing(_ connection: ProviderConnection) -> ProviderCheck.Check {
    let traits = connection.provider.refreshTraits
    let result = connection.history.narrowingResult
    func ok(_ message: String) -> ProviderCheck.Check { .init(name: .narrowing, result: .ok, message: message) }
    switch traits.narrowing {
    case .never: return ok("not requested: callers get the account's own token")
    case .verified: return ok("by a refresh: narrow_tokens vouches for the server")
    case .cautious where traits.rotation == .none:
      guard result == .harmful else {
        return ok("by a refresh: \(result)")
      }
      return .init(
        name: .narrowing, result: .warning, message: result.description,
        hint:
          "Set narrow_tokens = false in \(connection.provider.section) if the account's own token should be used."
      )
    case .cautious:
      let exchanges = connection.metadata.known.map { ProviderConnection.supportsExchange($0.value) } ?? false
      return ok(
        exchanges
          ? "by token exchange"
          : "not requested, since refresh tokens rotate: callers get the account's own token")
    }
  }

  private func conditionCheck(_ connection: ProviderConnection) -> ProviderCheck.Check {
    switch connection.condition {
    case .ok where connection.diagnostics.oddities.contains(TokenResponse.unknownLifetime):
      return .init(
        name: .condition, result: .warning, message: "its token responses do not state how long access tokens live",
        hint:
          "They are refreshed within an hour. Set access_token_lifetime in \(connection.provider.section) if it is documented."
      )
    case .ok: return .init(name: .condition, result: .ok, message: "refreshes go on")
    case .recovering:
      return .init(name: .condition, result: .ok, message: "it answers again; refreshes begin one after the other")
    case .suspended(let failure, let until):
      return .init(
        name: .condition, result: .failed, message: "it refuses this client, so its refreshes rest: \(failure.message)",
        hint: "\(connection.provider.correction) It is tried again in \(max(1, (until - now).wholeSeconds)) s.")
    case .unreachable(let failure, _, let retryAt):
      return .init(
        name: .condition, result: .warning, message: "it is unavailable, so its refreshes wait: \(failure.message)",
        hint: "Nothing to do: tried again in \(max(1, (retryAt - now).wholeSeconds)) s. The checks below tell more.")
    }
  }

  private func connectionCheck(_ probes: [ProviderProbe], provider: any Provider) -> ProviderCheck.Check {
    for probe in probes {
      guard case .failure(let error) = probe.result else { continue }
      let hint = error.hint(for: probe.request.url, section: provider.section)
      return .init(name: .connection, result: .failed, message: error.message, hint: hint)
    }
    var origins: Set<String> = []
    let answers = probes.compactMap { probe -> String? in
      guard let response = probe.response, origins.insert(probe.origin).inserted else { return nil }
      let proxy = transport.proxy(for: probe.request.url).map { " through the proxy \($0.authority)" } ?? ""
      return "\(probe.origin) answers HTTP \(response.status) in \(max(0, probe.took.milliseconds)) ms\(proxy)"
    }
    guard !answers.isEmpty else {
      return .init(name: .connection, result: .skipped, message: "there is no usable address to ask")
    }
    return .init(name: .connection, result: .ok, message: answers.joined(separator: "; "))
  }

  private func keys(
    of provider: any Provider, _ metadata: ServerMetadata, _ connection: ProviderConnection,
    _ probes: inout [ProviderProbe]
  ) async -> ProviderCheck.Check {
    let request: HTTPRequest?
    do throws(ProviderFailure) {
      request = try provider.keysRequest(metadata)
    } catch {
      return .init(name: .keys, result: .skipped, message: "skipped: see the endpoints check")
    }
    guard let request else {
      return .init(name: .keys, result: .skipped, message: "no ID tokens are asked for, so none are needed")
    }
    let probe = await probe(request, connection)
    probes.append(probe)
    guard let response = probe.response else {
      return .init(name: .keys, result: .skipped, message: "not looked at: connection has why")
    }
    do throws(ResponseError) {
      return .init(provider.examine(try JWKSet.parse(response), metadata: metadata))
    } catch {
      return .init(
        name: .keys, result: .failed, message: "\(request.url.absoluteString): \(error.description)",
        hint: "ID tokens cannot be verified without them, so every login fails. Check jwks_uri and issuer in "
          + "\(provider.section), or wait if the provider is unavailable.")
    }
  }

  /// By the answer whose road was the shortest.
  private func clock(_ probes: [ProviderProbe], tolerance: Duration) -> ProviderCheck.Check {
    let dated = probes.filter { $0.skew != nil }.min { $0.took < $1.took }
    guard let skew = dated?.skew else {
      let why = probes.contains { $0.response != nil } ? "the provider says no time" : "the provider does not answer"
      return .init(name: .clock, result: .skipped, message: "cannot be compared: \(why)")
    }
    let seconds = abs(skew.wholeSeconds)
    let side = skew > .zero ? "ahead of" : "behind"
    let magnitude = skew < .zero ? .zero - skew : skew
    guard magnitude >= min(Self.noticedSkew, tolerance), seconds > 0 else {
      return .init(name: .clock, result: .ok, message: "it agrees with the provider's")
    }
    let message = "this machine's clock is \(seconds) s \(side) the provider's"
    let isTooMuch = magnitude > tolerance
    return .init(
      name: .clock, result: isTooMuch ? .failed : .warning,
      message: message + (isTooMuch ? ", more than clock_tolerance (\(tolerance.wholeSeconds) s)" : ""),
      hint: "Check timedatectl: it shows whether the clock is synchronized; `timedatectl set-ntp true` turns that on. "
        + (isTooMuch ? "Until then ID tokens are refused." : "More than \(tolerance.wholeSeconds) s would be refused."))
  }

  private func redirect(
    _ traits: AuthorizationTraits, _ connection: ProviderConnection
  ) async -> ProviderCheck.Check {
    let url = addresses.redirectAddress(traits)
    let port: Int
    switch traits.redirect {
    case .fixed(let uri) where addresses.isPublic(uri):
      return .init(
        name: .redirect_uri, result: .ok,
        message: "\(url) is answered where the proxy passes it on; it must be registered at the provider")
    case .fixed(let uri) where !uri.isLoopback:
      return .init(
        name: .redirect_uri, result: .ok,
        message: "\(url), which is not the broker's: `grantctl login --manual`, or login.handle_callback")
    case .fixed(let uri): port = uri.port ?? 80
    case .loopback:
      guard let own = addresses.port else {
        return .init(
          name: .redirect_uri, result: .failed,
          message: "the callback endpoint does not listen, so no login comes back by itself",
          hint:
            "Is `enabled` false in [callback], or the port taken (see the log)? Until then `grantctl login --manual` "
            + "works.")
      }
      port = own
    }
    guard port == addresses.port || addresses.fixedPorts.contains(port) else {
      return .init(
        name: .redirect_uri, result: .failed,
        message: "port \(port) of \(url) is not the broker's: another program has it",
        hint: "`ss -ltnp 'sport = :\(port)'` names that program: stop it. The broker tries the port again itself.")
    }
    return await callback(url, port: port, connection)
  }

  /// A path that no login has: any answer shows that a browser of this machine gets there.
  private func callback(
    _ url: String, port: Int, _ connection: ProviderConnection
  ) async -> ProviderCheck.Check {
    let host = URL(string: url)?.host.map { $0.contains(":") ? "[\($0)]" : $0 } ?? "127.0.0.1"
    guard let address = URL(string: "http://\(host):\(port)/check") else {
      return .init(
        name: .redirect_uri, result: .failed, message: "\(url) is not a URL",
        hint: "Correct redirect_uri in the configuration, then `grantctl reload`.")
    }
    let request = HTTPRequest(purpose: .discovery, method: "GET", url: address)
    if case .failure(let error) = await probe(request, connection).result {
      return .init(
        name: .redirect_uri, result: .failed,
        message: "the broker does not reach its own callback endpoint at \(host):\(port): \(error.message)",
        hint: "A firewall on the loopback interface? `curl -v \(address.absoluteString)` should answer 404.")
    }
    return .init(name: .redirect_uri, result: .ok, message: "\(url) is answered; it must be registered at the provider")
  }
}

extension ProviderCheck.Check {
  init(_ finding: Finding) {
    let name: CheckName =
      switch finding.name {
      case .configuration: .configuration
      case .discovery: .discovery
      case .issuer: .issuer
      case .endpoints: .endpoints
      case .keys: .keys
      case .grantTypes: .grant_types
      case .clientAuthentication: .client_authentication
      case .pkce: .pkce
      case .scopes: .scopes
      }
    switch finding.result {
    case .ok: self.init(name: name, result: .ok, message: finding.message)
    case .skipped: self.init(name: name, result: .skipped, message: finding.message)
    case .warning(let hint): self.init(name: name, result: .warning, message: finding.message, hint: hint)
    case .failed(let hint): self.init(name: name, result: .failed, message: finding.message, hint: hint)
    }
  }
}
