import AsyncClient
import BrokerAPI
import CredentialHelpers

/// One run of a helper: the input, the account that is meant, its token, the answer.
struct HelperRun {
  /// A program sends its input at once. One that stops in the middle waits for us while we wait for it.
  static let patience = Duration.milliseconds(800)
  /// Characters of the line for the person.
  private static let longestProblem = 1000
  /// Seconds for the refresh that a report starts.
  private static let reportTimeout = 10.0

  let shell: Shell
  let invocation: Invocation
  /// Nil: the access token.
  var kind: TokenKind?

  func reply(by chosen: any CredentialProtocol.Type) async -> Reply { await reply(chosen) }

  private func reply<Chosen: CredentialProtocol>(_ chosen: Chosen.Type) async -> Reply {
    do throws(Problem) {
      return try await answered(chosen)
    } catch {
      // Parts of it are others' words.
      let line = SafeText.line(String(error.line.prefix(Self.longestProblem)))
      return Chosen.refusal(Problem(line, isOurs: error.isOurs), invocation)
    }
  }

  private func answered<Chosen: CredentialProtocol>(_ chosen: Chosen.Type) async throws(Problem) -> Reply {
    let asked = try await asked(chosen)
    switch asked.request {
    case .answered(let reply): return reply
    case .token(let request):
      guard let use = try await use(request, chosen) else { return Chosen.notFound(invocation) }
      if let exchanging = asked as? any Exchanging { return try await exchanged(exchanging, use, request) }
      let token = try await token(use, request)
      do throws(Malformed) { return try asked.answer(token.issued) } catch {
        throw Problem(error.description, isOurs: true)
      }
    case .ours(let request, let reply, let problem):
      guard try await use(request, chosen) != nil else { throw problem }
      return reply
    case .rejected(let request, let secret):
      guard let use = try await use(request, chosen) else { return Reply() }
      try await report(secret, use, request)
      return Reply()
    }
  }

  /// A token that has ended is reported, and the next one tried.
  private func exchanged(_ asked: any Exchanging, _ use: HelperUse, _ request: HelperTokenRequest) async throws(Problem)
    -> Reply
  {
    let web = WebExchange(terminal: shell.terminal)
    var refused: Problem?
    for _ in 1...2 {
      let token = try await token(use, request)
      let sent: WebRequest
      do throws(Malformed) { sent = try asked.exchange(token.issued) } catch {
        throw Problem(error.description, isOurs: true)
      }
      let (status, body) = try await web.send(sent)
      switch try asked.outcome(status: status, body: body) {
      case .answer(let reply): return reply
      case .rejected(let problem):
        guard refused == nil else { throw problem }
        refused = problem
        try await report(token.issued.text, use, request)
      }
    }
    throw refused ?? Problem("no answer")
  }

  private func asked<Chosen: CredentialProtocol>(_ chosen: Chosen.Type) async throws(Problem) -> Chosen {
    let greeting = Chosen.greeting(invocation)
    if !greeting.isEmpty { shell.terminal.writeBytes(greeting) }
    let shape = Chosen.input(invocation)
    var input: [UInt8] = []
    if shape != .none {
      let limit = shell.terminal.isInTTY ? nil : Self.patience
      switch await shell.terminal.inputUntil(InputShape.limit, limit, shape.isComplete) {
      case .bytes(let bytes): input = bytes
      case .tooLong:
        throw Problem("the input is longer than \(InputShape.limit / 1024) KiB: it is not a request of \(Chosen.name)")
      case .stopped: throw Problem("the input of \(Chosen.name) stopped before its end: run it again")
      }
    }
    do throws(Malformed) {
      return try Chosen(invocation, input: input)
    } catch {
      throw Problem("\(error): is `grantctl helper \(Chosen.name)` the helper for this program?")
    }
  }
}

/// The account that is used for a host, and how.
struct HelperUse: Equatable {
  var account: String
  var entry: Mapping.Entry?
}

extension HelperRun {
  /// Nil: no account is assigned to the host.
  private func use<Chosen: CredentialProtocol>(
    _ request: HelperTokenRequest, _ chosen: Chosen.Type
  ) async throws(Problem) -> HelperUse? {
    if let account = request.account { return try named(account, request, chosen) }
    guard let place = request.place else {
      throw Problem("which account? Name it: `grantctl helper \(Chosen.name) --account NAME`")
    }
    let files = HelperFiles(terminal: shell.terminal)
    switch try files.mapping().choose(request, for: Chosen.name) {
    case .entry(let entry): return HelperUse(account: entry.account, entry: entry)
    case .ambiguous(let accounts): throw ambiguous(place, accounts, files)
    case .insecure: throw insecure(request, place, files)
    case .nobody: break
    }
    guard Chosen.findsIssuers, !request.isReadable else { return nil }
    let accounts = try await accountsOfIssuer(place)
    if let named = request.username ?? place.username, accounts.contains(named) { return HelperUse(account: named) }
    guard accounts.count <= 1 else { throw ambiguous(place, accounts, files) }
    return accounts.first.map { HelperUse(account: $0) }
  }

  /// An account that is named needs no entry, except for a token that travels readable.
  private func named<Chosen: CredentialProtocol>(
    _ account: String, _ request: HelperTokenRequest, _ chosen: Chosen.Type
  ) throws(Problem) -> HelperUse {
    guard let place = request.place, request.isReadable else { return HelperUse(account: account) }
    let files = HelperFiles(terminal: shell.terminal)
    guard case .entry(let entry) = try files.mapping().choose(request, for: Chosen.name), entry.account == account
    else {
      throw insecure(request, place, files)
    }
    return HelperUse(account: account, entry: entry)
  }

  private func insecure(_ request: HelperTokenRequest, _ place: ServerLocation, _ files: HelperFiles) -> Problem {
    let what =
      request.mayBeHTTP
      ? "is requested without https://, so the token might be sent over http, readable by others: "
        + "give the program the URL of the index with https://"
      : "is requested over http, readable by others: use https"
    return Problem(
      "\(place.name) \(what), or write allow_insecure_http = true to its entry in \(files.user)", isOurs: true)
  }

  private func ambiguous(_ place: ServerLocation, _ accounts: [String], _ files: HelperFiles) -> Problem {
    Problem(
      "accounts \(accounts.joined(separator: ", ")) are for \(place.name): name one as the user "
        + "(\(accounts[0])@\(place.name)), or write to \(files.user): "
        + Mapping.lines(for: place, account: accounts[0]), isOurs: true)
  }

  /// The accounts at the provider whose issuer is that host.
  private func accountsOfIssuer(_ place: ServerLocation) async throws(Problem) -> [String] {
    do throws(Failure) {
      let client = try await shell.connect()
      let providers = try await shell.ask(ProviderList.self, .init(), on: client).value().providers
      var accounts: [String] = []
      for provider in providers
      where provider.issuer.flatMap({ ServerLocation($0) }).map({ place.isSameServer(as: $0) }) == true {
        let listed = try await shell.accounts(.init(provider: provider.provider), on: client).value()
        accounts += listed.accounts.map(\.account)
      }
      return accounts
    } catch {
      // Who may not list them has a mapping, or nothing.
      if error.status == .notPermitted, error.rpc != nil { return [] }
      throw problem(error, isOurs: false)
    }
  }

  func token(_ use: HelperUse, _ request: HelperTokenRequest) async throws(Problem) -> (
    issued: IssuedToken, generation: Int64
  ) {
    let scopes = use.entry?.scopes ?? []
    let result: TokenGet.Result
    do throws(Failure) {
      result = try await shell.askAtOnce(
        TokenGet.self,
        kind == .idToken
          ? .init(account: use.account, kind: kind)
          : .init(account: use.account, scopes: scopes.isEmpty ? nil : scopes, resource: use.entry?.resource)
      ).value()
    } catch {
      throw problem(error, isOurs: error.status != .notRunning)
    }
    guard let text = kind == .idToken ? result.id_token : result.access_token else {
      throw Problem(
        "account \(use.account) has a session instead of a token: `grantctl token \(use.account) --cookie`",
        isOurs: true)
    }
    guard (result.token_type ?? "Bearer").lowercased() == "bearer" else {
      throw Problem(
        "the token of account \(use.account) is bound to a key (\(result.token_type ?? "")): a helper cannot return it; "
          + "`grantctl request \(use.account) GET PATH` sends a request with it", isOurs: true)
    }
    guard !text.isEmpty, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw Problem(
        "the token of account \(use.account) has characters that no token may have: `grantctl token \(use.account) --json`",
        isOurs: true)
    }
    let username =
      use.entry?.username ?? (request.username == use.account ? nil : request.username ?? request.place?.username)
    let issued = IssuedToken(
      text: text, expiresAt: result.expires_at, username: username, isBearer: use.entry?.isBearer ?? false,
      path: use.entry?.path)
    return (issued, result.generation)
  }

  /// Only of the token that the account has now: programs tell each helper of each secret, and late.
  private func report(_ secret: String, _ use: HelperUse, _ request: HelperTokenRequest) async throws(Problem) {
    let current: (issued: IssuedToken, generation: Int64)
    // A grant that has ended is told when a token is asked for, not when the program forgets one.
    do throws(Problem) { current = try await token(use, request) } catch { return }
    guard current.issued.text == secret else { return }
    do throws(Failure) {
      _ = try await shell.ask(
        TokenReportRejected.self,
        .init(account: use.account, generation: current.generation, kind: kind, timeout: Self.reportTimeout))
    } catch {
      throw problem(error, isOurs: true)
    }
  }

  private func problem(_ failure: Failure, isOurs: Bool) -> Problem {
    // One line: the hint with the next command.
    let hint = (failure.hints.first { $0.contains("`") } ?? failure.hints.last).map(shell.adapted)
    return Problem([failure.message, hint].compactMap { $0 }.joined(separator: ". "), isOurs: isOurs)
  }
}

extension ServerLocation {
  func isSameServer(as other: ServerLocation) -> Bool { host == other.host && effectivePort == other.effectivePort }
}
