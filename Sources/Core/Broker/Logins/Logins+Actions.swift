import BrokerAPI
import FoundationEssentials
import Grants
import Logging
import OAuth
import Principals

// A login in which the user must do more than sign in. Each step is on disk.
extension Logins {
  /// The login waits for the user, with its stored data; an error if these cannot be saved.
  func hold(
    _ login: SavedLogin, _ action: LoginAction, _ memory: [String: Secret], _ provider: any Provider
  ) async -> RPCError? {
    var saved = table[login.id]?.saved ?? login
    saved.action = action
    saved.memory = memory
    // The user's step has its own time limit.
    saved.expiresAt = max(saved.expiresAt, now + provider.authorizationTraits.lifetime)
    do throws(StoreError) {
      await written(saved.id)
      try await journal.commit([.putLogin(saved)], expecting: journal.shared(.login(saved.id)))
    } catch {
      if error == .conflict {
        table[login.id]?.phase = .pending
        await changedElsewhere([login.id])
        return storeError(error)
      }
      return await fail(login.id, storeError(error))
    }
    // Reported results of this time are kept.
    table[login.id]?.saved.action = action
    table[login.id]?.saved.memory = memory
    table[login.id]?.saved.expiresAt = saved.expiresAt
    table[login.id]?.phase = .pending
    waiters.wake(.login(login.id))
    wakeScheduler()
    emit(login: saved, .loginActionRequired, message: actionView(action).message)
    return nil
  }

  /// `login.continue`.
  func continueLogin(_ params: LoginContinue.Params, caller: Principal) async throws(RPCError) -> LoginContinue.Result {
    guard !isDraining else { throw shuttingDown() }
    let login = try login(params.login_id, LoginContinue.name, caller: caller)
    if login.endedAt != nil, let result = try result(of: login) { return result }
    guard login.isPending else {
      throw RPCError(.loginInProgress, "the login goes on already", hint: "Wait for it with `login.wait`.")
    }
    guard login.saved.expiresAt > now else { throw RPCError(.loginExpired, Self.late) }
    let input = try input(params, login.saved)
    let name = login.saved.provider
    guard providers[name] != nil else { throw providers.error(gone(name), at: name) }
    table[login.saved.id]?.phase = .exchanging
    table.exchangesInFlight += 1
    defer { table.exchangesInFlight -= 1 }
    if let error = await resume(login.saved, input) { throw error }
    guard let login = table[login.saved.id] else { throw RPCError(.unknownLogin, "no such login") }
    return try result(of: login) ?? pending(login)
  }

  /// Sends the user's input; an error if the login ends, or continues to wait.
  private func resume(_ login: SavedLogin, _ input: LoginInput) async -> RPCError? {
    let target: ProviderEndpoints
    switch await providers.endpoints(of: login.provider) {
    case .success(let known): target = known
    case .failure(let failure):
      table[login.id]?.phase = .pending
      return providers.error(failure, at: login.provider)
    }
    if let error = moved(login) { return await fail(login.id, error) }
    let provider = target.provider
    let sentAt = uptime
    let step = provider.resume(login, with: input, metadata: target.metadata)
    switch await target.connection.converse(step, for: .exchanges) {
    case .success(let answer): return await finish(answer, login, provider, sentAt: sentAt)
    case .failure(let failure):
      let error = providers.error(failure, at: provider.name)
      let isRejected = if case .rejected = failure { true } else { false }
      guard isRejected || failure.isOfProvider else { return await fail(login.id, error) }
      table[login.id]?.phase = .pending
      return error
    }
  }

  private func input(_ params: LoginContinue.Params, _ login: SavedLogin) throws(RPCError) -> LoginInput {
    switch login.action {
    case nil:
      throw .invalidParams(
        "the login waits only for the user to sign in", hint: "Wait for it with `login.wait`.")
    case .sessionLimit(_, let sessions) where sessions.isEmpty && params.session_id == nil && params.attributes == nil:
      return .again
    case .sessionLimit(_, let sessions):
      guard let id = params.session_id, params.attributes == nil else {
        throw .invalidParams("params.session_id: expected the session to replace, and nothing else")
      }
      guard sessions.contains(where: { $0.id == id }) else {
        throw .invalidParams(
          "params.session_id: no session \(id.prefix(64).debugDescription) is open",
          hint: "Open are: \(sessions.prefix(16).map(\.id).joined(separator: ", ").prefix(512)).")
      }
      return .session(id)
    case .registration:
      guard params.session_id == nil else {
        throw .invalidParams("params.attributes: expected what the provider wants to know, and nothing else")
      }
      // Without input the provider reports the required attributes.
      let members = (params.attributes ?? [:]).sorted { $0.key < $1.key }.map {
        JSON.Member(name: $0.key, value: $0.value)
      }
      return .attributes(Data(JSON.object(members).serialized()))
    }
  }

  func actionView(_ action: LoginAction) -> LoginActionView {
    switch action {
    case .sessionLimit(let limit, let sessions):
      let allowed = limit.map { " (\($0))" } ?? ""
      return LoginActionView(
        kind: .sessionLimit,
        message: "as many sessions are open as the provider allows\(allowed): "
          + (sessions.isEmpty ? "it names none of them. End one there, then go on" : "choose the one to replace"),
        sessions_limit: limit, sessions: sessions.map(SessionView.init))
    case .registration(let identifier):
      let who = identifier.map { " of \($0.prefix(256))" } ?? ""
      return LoginActionView(
        kind: .registration, message: "the provider wants to know more\(who) before the first sign-in",
        identifier: identifier)
    }
  }
}

extension SessionView {
  init(_ session: ProviderSession) {
    self.init(
      session_id: session.id, user_agent: session.userAgent, client: session.client, ip: session.address,
      online: session.isOnline, current: session.isCurrent, last: session.lastUsed)
  }
}

extension LoginContinue: RPCHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.logins.continueLogin(call.params, caller: call.caller)
  }
}
