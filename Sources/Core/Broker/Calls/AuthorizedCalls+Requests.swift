import BrokerAPI
import FoundationEssentials
import Grants
import OAuth
import Principals

// Calls to a provider's API for a caller, which never sees the token; and the user's sessions.
extension AuthorizedCalls {
  /// `request.send`.
  func sendRequest(
    _ account: AccountName, _ params: RequestSend.Params, _ session: any Session, _ permission: Permission,
    hasConsent: Bool = false
  ) async throws(RPCError) -> RequestSend.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    var question = try question(account, needs: .nothing, for: TokenRequester(permission.principal), until: deadline)
    question.isWanted = { session.isReading }
    question.session = session
    // An impossible request needs no approval.
    _ = try request(params, question.provider)
    var call = APICall(question: question, params: params, permission: permission)
    call.renewed.consent = hasConsent
    while true {
      let attempt: Attempt<HTTPResponse> = try await attempt(question) { token, saved, target throws(RPCError) in
        try approvals.checkAgain(RequestSend.self, account, params, permission)
        let request = try self.request(params, target.provider)
        return .send(target.provider.authorized(request, by: token, of: saved)) { response, _ in .done(response) }
      }
      let response: HTTPResponse
      switch attempt.answer {
      case .success(let answer): response = answer
      case .failure(let failure): throw providers.error(failure, at: question.name)
      }
      switch call.verdict(on: .collected(response), of: attempt.target.provider, by: self) {
      case .tokenRefused(let message, let oauth):
        try await replace(attempt, &call.renewed, for: question, message, oauth, isProvidersWord: false)
      case .stepUp(let error):
        let end = params.timeout == nil ? uptime + stepUp.within : min(deadline, uptime + stepUp.within)
        if stepUp.asks, !call.renewed.consent,
          try await accounts.awaitsSignIn(of: account, for: question.asker.holder, until: end, session: session)
        {
          var again = params
          again.timeout = params.timeout.map { _ in max(1, Double((deadline - uptime).milliseconds) / 1000) }
          return try await sendRequest(account, again, session, permission, hasConsent: true)
        }
        if response.status == 401 { throw error }
        return try result(response)
      case .refused(let error): throw error
      case .passed, .nonce:
        if (200..<300).contains(response.status) { accounts.recordAccepted(account) }
        return try result(response)
      }
    }
  }

  private func request(_ params: RequestSend.Params, _ provider: any Provider) throws(RPCError) -> HTTPRequest {
    guard Self.isToken(params.method, limit: 32) else {
      throw .invalidParams("params.method: expected an HTTP method, such as GET")
    }
    // RFC 9110 §9.3.8: its answer is the request, credentials and all; §9.3.6: a tunnel is none of ours.
    guard !["TRACE", "CONNECT"].contains(params.method.uppercased()) else {
      throw .invalidParams("params.method: the broker does not send \(params.method)")
    }
    let url = try address(params.url, provider)
    guard (params.headers?.count ?? 0) <= Limit.headers else {
      throw .invalidParams("params.headers: more than \(Limit.headers)")
    }
    var headers: [HTTPRequest.Header] = []
    for (name, value) in (params.headers ?? [:]).sorted(by: { $0.key < $1.key }) {
      let header = HTTPRequest.Header(name, value)
      guard Self.isToken(name, limit: 128), value.utf8.count <= 8192, header.isSendable else {
        throw .invalidParams("params.headers: \(name.prefix(64).debugDescription) is not a header that can be sent")
      }
      // The broker names itself to the provider.
      guard !CallerHeaders.isRefused(name), CallerHeaders.folded(name) != "user-agent" else {
        throw .invalidParams("params.headers: the broker sets \(name) itself")
      }
      headers.append(header)
    }
    headers.append(.init("Accept-Encoding", "identity"))
    return HTTPRequest(
      purpose: .resource, method: params.method, url: url, headers: headers, body: try body(params))
  }

  private func body(_ params: RequestSend.Params) throws(RPCError) -> Data? {
    guard params.body == nil || params.body_base64 == nil else {
      throw .invalidParams("params.body, params.body_base64: only one of them")
    }
    var data = params.body.map { Data($0.utf8) }
    if let text = params.body_base64 {
      data = Data(base64Encoded: text)
      if data == nil { throw .invalidParams("params.body_base64: expected base64 (RFC 4648 §4)") }
    }
    guard (data?.count ?? 0) <= Limit.requestBody else {
      throw .invalidParams("params.body: more than \(Limit.requestBody) bytes")
    }
    return data
  }

  private func result(_ response: HTTPResponse) throws(RPCError) -> RequestSend.Result {
    guard response.body.count <= Limit.responseBody else {
      throw RPCError(
        .providerError, "the answer has \(response.body.count) bytes, more than \(Limit.responseBody)",
        hint: "Ask for less at a time, or get a token with `token.get` and ask by yourself.")
    }
    if let reason = response.unsearchable {
      throw RPCError(
        .providerError,
        "the request was carried out, but its response is withheld: \(reason), so it cannot be searched for the token",
        hint: "Ask for another form of it, or get a token with `token.get` and ask by yourself.")
    }
    var headers: [String: String] = [:]
    for header in response.headers.prefix(Limit.headers) where header.name.lowercased() != "set-cookie" {
      headers.merge([header.name.lowercased(): header.value]) { "\($0), \($1)" }
    }
    var result = RequestSend.Result(status: Int64(response.status), headers: headers)
    if let text = String(validating: response.body, as: UTF8.self) {
      result.body = text
    } else {
      result.body_base64 = response.body.base64EncodedString()
    }
    // Escapes make a text longer.
    guard JSON(encoding: result).serialized().count <= Limit.responseLine else {
      throw RPCError(
        .providerError, "the answer does not fit a line of the socket",
        hint: "Ask for less at a time, or get a token with `token.get` and ask by yourself.")
    }
    return result
  }

  /// RFC 9110 §5.6.2.
  private static func isToken(_ text: String, limit: Int) -> Bool {
    !text.isEmpty && text.utf8.count <= limit
      && text.utf8.allSatisfy {
        (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
          || "!#$%&'*+-.^_`|~".utf8.contains($0)
      }
  }

  // MARK: Sessions

  /// `account.sessions`.
  func sessions(
    _ account: AccountName, _ params: AccountSessions.Params, _ permission: Permission
  ) async throws(RPCError) -> AccountSessions.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    let question = try question(account, needs: .metadata, for: TokenRequester(permission.principal), until: deadline)
    try check(question.provider, "keeps no list of sessions")
    let sessions = try await ask(question) { token, saved, target throws(RPCError) in
      try approvals.checkAgain(AccountSessions.self, account, params, permission)
      return target.provider.sessions(of: saved, token: token, metadata: target.metadata)
    }
    return .init(sessions: sessions.map(SessionView.init))
  }

  /// `account.end_session`.
  func endSession(
    _ account: AccountName, _ params: AccountEndSession.Params, _ permission: Permission
  ) async throws(RPCError) -> AccountEndSession.Result {
    let deadline = uptime + (try Timeouts.duration(params.timeout))
    let question = try question(account, needs: .metadata, for: TokenRequester(permission.principal), until: deadline)
    try check(question.provider, "ends no session by its id")
    guard !params.session_id.isEmpty, params.session_id.utf8.count <= 1024 else {
      throw .invalidParams("params.session_id: expected the id of a session, as `account.sessions` names it")
    }
    let ended = try await ask(question) { token, saved, target throws(RPCError) in
      try approvals.checkAgain(AccountEndSession.self, account, params, permission)
      return target.provider.endSession(params.session_id, of: saved, token: token, metadata: target.metadata)
    }
    // It may have been the account's own token: then that is refused, and must not be released.
    if ended {
      _ = try? await ask(question) { token, saved, target in
        target.provider.sessions(of: saved, token: token, metadata: target.metadata)
      }
    }
    return .init(ended: ended)
  }

  private func check(_ provider: any Provider, _ lack: String) throws(RPCError) {
    guard provider.logoutTraits.listsSessions else {
      throw RPCError(.unsupportedByProvider, "provider \(provider.name) \(lack)")
    }
  }
}

extension AccountSessions: ReleaseHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.calls.sessions(call.account, call.params, call.permission)
  }
}

extension AccountEndSession: ReleaseHandler {
  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.calls.endSession(call.account, call.params, call.permission)
  }
}

extension RequestSend: ReleaseHandler {
  static func request(_ params: Params, by broker: Broker) async -> APIRequest? {
    var request = await broker.tokens.calls.apiRequest(params.method, params.url, of: params.account)
    if broker.door.authorizer.policy.readsMessages {
      let body =
        params.body.map { Array($0.utf8) } ?? params.body_base64.flatMap { Data(base64Encoded: $0) }.map(Array.init)
      request.content = MCPContent(
        method: params.method, headers: (params.headers ?? [:]).map { ($0.key, $0.value) }, body: body ?? [])
    }
    return request
  }

  static func answer(_ call: Call<Self>, by broker: Broker) async throws(RPCError) -> Result {
    try await broker.tokens.calls.sendRequest(call.account, call.params, call.session, call.permission)
  }
}
