import BrokerAPI
import FoundationEssentials
import Grants
import OAuth
import Principals

// Rules with `confirm`: a release waits for a user's approval. Other requests do not wait with it.
extension Approvals {
  /// A caller with less time than this gets no approval request: no user could answer in time.
  private static let shortestWait = Duration.seconds(1)

  /// Lets a release continue, at once or after approval. The returned parameters have the remaining time.
  func clear<M: TokenRelease>(
    _ method: M.Type, _ account: AccountName, _ params: M.Params, _ permission: Permission, _ session: any Session,
    body: ForwardRequest.Body? = nil
  ) async throws(RPCError) -> (M.Params, Permission) {
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    // Almost all releases need no approval, so the request is not prepared here.
    guard permission.confirmation != nil else {
      if params.usesWholeToken { try authorizer.checkWhole(permission) }
      return (params, permission)
    }
    var question = question(method, params, grant, permission.request)
    switch body {
    case nil: break
    case .read(let digest, _)?: if question.request?.isOfCalls != true { question.request?.bodyDigest = digest }
    case .unread?:
      if self.confirmation(question, permission) != nil {
        // The rules changed since the request came, and its body is on its way already.
        throw RPCError(
          .temporarilyUnavailable, "this request now needs a user's approval", hint: "Send it again.",
          retryAfter: 1)
      }
    }
    if params.usesWholeToken { try authorizer.checkWhole(permission) }
    guard let confirmation = confirmation(question, permission) else { return (params, permission) }
    try checkPossible(params, grant, question, permission)
    var params = params
    let began = uptime
    let patience = params.timeout == nil ? nil : try Timeouts.duration(params.timeout)
    let asked = try await ask(question, confirmation, permission, patience, session)
    if let patience { params.timeout = Double(max(.zero, patience - (uptime - began)).milliseconds) / 1000 }
    return (params, asked)
  }

  /// A reload during the wait may have changed the caller's rights.
  func checkAgain<M: TokenRelease>(
    _ method: M.Type, _ account: AccountName, _ params: M.Params, _ permission: Permission
  ) throws(RPCError) {
    guard !authorizer.isCurrent(permission) else { return }
    let permission = try authorizer.renewed(permission)
    if params.usesWholeToken { try authorizer.checkWhole(permission) }
    guard permission.approved == nil else { return }
    guard let grant = accounts[account] else { throw unknownAccount(account.rawValue) }
    guard let confirmation = confirmation(question(method, params, grant, permission.request), permission) else {
      return
    }
    throw Authorizer.unconfirmed(permission, confirmation)
  }

  private func question<M: TokenRelease>(
    _ method: M.Type, _ params: M.Params, _ grant: Grant, _ sent: APIRequest?
  ) -> PendingReleases.Question {
    var question = PendingReleases.Question(account: params.account, method: M.name)
    if let params = params as? TokenGet.Params {
      question.isIDToken = params.kind == .idToken
      question.scopes = question.isIDToken ? nil : scopes(of: params, grant)
      question.resource = params.resource ?? params.audience
    } else if let named = (params as? DPoPProof.Params)?.access_token {
      // Exposed to be compared, in a type that does it in constant time.
      let token = Secret(named.exposed)
      question.scopes = grant.livingTokens.first { $0.key.isNarrowed && $0.accessToken == token }.map { Set($0.scopes) }
    }
    if let params = params as? RequestSend.Params {
      let provider = providers[grant.saved.provider]?.provider
      let address = (try? provider?.apiTraits.resolve(params.url).absoluteString) ?? params.url
      let body = params.body.map { Data($0.utf8) } ?? params.body_base64.flatMap { Data(base64Encoded: $0) }
      let line = "\(params.method.uppercased()) \(address)"
      // A user approves a tool: the id of the message is another one each time.
      question.request =
        if let calls = sent?.callNames {
          .init(line: "\(line) \(calls)", bodyDigest: nil, isOfCalls: true)
        } else {
          .init(line: line, bodyDigest: body.flatMap { $0.isEmpty ? nil : Grants.bodyDigest(of: Array($0)) })
        }
    }
    return question
  }

  /// The scopes shown to the user: the requested ones, and known further ones of the token. Nil: all permitted to the
  /// caller.
  private func scopes(of params: TokenGet.Params, _ grant: Grant) -> Set<String>? {
    guard let asked = params.scopes, !asked.isEmpty else { return nil }
    // Impossible requests are refused by the code that handles them.
    guard
      let wanted = try? accounts.key(scopes: asked, resource: params.resource, audience: params.audience, grant)
    else { return Set(asked) }
    let known = authorizer.knownScopes(of: wanted, grant)
    return known.isEmpty ? nil : Set(asked).union(known)
  }

  /// An impossible request needs no approval.
  private func checkPossible(
    _ params: any ReleaseParams, _ grant: Grant, _ question: PendingReleases.Question, _ permission: Permission
  ) throws(RPCError) {
    guard let params = params as? TokenGet.Params, params.kind != .idToken else { return }
    var permission = permission
    permission.approved = question
    let scopes = try authorizer.capped(params.scopes, of: grant, permission)
    let wanted = try accounts.key(scopes: scopes, resource: params.resource, audience: params.audience, grant)
    let known = authorizer.knownScopes(of: wanted, grant)
    guard !wanted.isNarrowed, !known.isEmpty else { return }
    try authorizer.checkCap(of: known, grant.saved, permission)
  }

  /// The part that needs approval; nil: none.
  private func confirmation(_ question: PendingReleases.Question, _ permission: Permission) -> Policy.Confirmation? {
    guard let confirmation = permission.confirmation else { return nil }
    if let scopes = question.scopes, scopes.isSubset(of: confirmation.exempt) { return nil }
    return confirmation
  }

  /// The end of a wait after which the caller continues.
  private enum Outcome: String {
    case approved
    case noLongerNeeded = "no_longer_needed"
  }

  /// The permission after approval, or after approval is no longer required.
  private func ask(
    _ question: PendingReleases.Question, _ first: Policy.Confirmation, _ permission: Permission, _ patience: Duration?,
    _ session: any Session
  ) async throws(RPCError) -> Permission {
    let caller = session.principal
    var permission = permission
    if let approval = releases.approval(on: question, of: caller, at: uptime) {
      guard approval.isAllowed else { throw denied(question) }
      permission.approved = approval.question
      return permission
    }
    guard !isDraining else { throw shuttingDown() }
    let wait = min(first.within, patience ?? first.within)
    guard wait >= Self.shortestWait else {
      throw RPCError(
        .timedOut,
        "\(question.method) for account \(question.account) waits for approval, and the caller does not wait",
        hint: "Ask with a `timeout` of \(first.within.wholeSeconds) s, or with none.")
    }
    let id = PendingReleases.id(system.randomBytes(6))
    let until = uptime + wait
    guard releases.begin(id, question, of: caller, rule: first.rule, from: uptime, until: until) else {
      throw RPCError(
        .overloaded, "too many requests wait for approval", hint: "Answer or deny some with `grantctl approve`.")
    }
    watch(session, id)
    defer {
      releases.remove(id)
      sessions[ObjectIdentifier(session)]?.ids.remove(id)
    }
    report(.releaseWaiting, id, hint: "Allow it with `grantctl approve \(id)`, or `grantctl approve \(id) --deny`.")
    do throws(RPCError) {
      let (outcome, renewed) = try await outcome(of: id, permission, until: until)
      report(.releaseEnded, id, outcome: outcome.rawValue)
      permission = renewed
      permission.approved = outcome == .approved ? question : nil
      return permission
    } catch {
      report(.releaseEnded, id, outcome: Self.outcomeName(of: error, releases[id]?.phase))
      throw error
    }
  }

  /// Returns when the release may continue, with the permission under the current policy.
  private func outcome(
    of id: String, _ permission: Permission, until: Duration
  ) async throws(RPCError) -> (Outcome, Permission) {
    var permission = permission
    while let release = releases[id] {
      guard !isDraining else { throw shuttingDown() }
      permission = try authorizer.renewed(permission)
      guard let confirmation = confirmation(release.question, permission) else { return (.noLongerNeeded, permission) }
      switch release.phase {
      case .approved: return (.approved, permission)
      case .denied: throw denied(release.question)
      case .abandoned: throw RPCError(.timedOut, "the caller hung up")
      case .waiting: break
      }
      guard uptime < until else {
        throw RPCError(
          .timedOut, "\(release.question.method) for account \(release.question.account) was not confirmed in time",
          hint: "Rule \(confirmation.rule) requires approval: `grantctl approve --wait` asks the user as requests come."
        )
      }
      try await waiters.callerWaits(for: .release(id), of: permission.principal.holder, until: until)
    }
    throw shuttingDown()
  }

  private static func outcomeName(of error: RPCError, _ phase: PendingReleases.Phase?) -> String {
    switch (phase, error.reason) {
    case (.denied, _): "denied"
    case (.abandoned, _): "caller_gone"
    case (_, .timedOut): "timed_out"
    case (_, .shuttingDown): "shutting_down"
    default: "refused"
    }
  }

  // MARK: Errors

  private func denied(_ question: PendingReleases.Question) -> RPCError {
    RPCError(
      .notPermitted, "the user refused \(question.method) for account \(question.account)",
      hint: "Ask them before it is tried again; they allow it with `grantctl approve`.")
  }
}
