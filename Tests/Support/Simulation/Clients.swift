import Broker
import BrokerAPI
import Foundation
import Grants
import OAuth
import Principals

/// A connection to the socket.
final class Client: Session {
  static let process = Caller(uid: 1000, gid: 1000, groups: [], pid: 100)
  let principal = Principal.process(Client.process)

  var isReading: Bool { true }
  func notify(method: String, params: JSON) -> Bool { true }
  func onClose(_ action: @escaping @Sendable () -> Void) {}
  func holdOpen() {}
}

/// Calls of programs and users without an answer yet.
struct Calls {
  struct Call {
    var account: ModelAccount
    var method: String
    var startedAt: Moment
    var deadline: Moment?
    var run: Int
  }

  private(set) var underWay: [Int: Call] = [:]
  private var last = 0

  mutating func begin(_ call: Call) -> Int {
    last += 1
    underWay[last] = call
    return last
  }

  mutating func end(_ id: Int) -> Call? { underWay.removeValue(forKey: id) }
  mutating func removeAll() { underWay = [:] }
}

/// The receiver of the answer of a call.
struct Heard<Value>: @unchecked Sendable {
  // All of a simulation is on one thread, which the scheduler sees to.
  let then: (Result<Value, RPCError>, Calls.Call) -> Void
}

extension World {
  /// The time that a call may take beyond its `timeout`: ordered commits, and the rounding of timers.
  static let slack: Moment = 100

  /// Calls a method as a program does, and passes the answer on.
  func call<M: RPCMethod>(
    _ method: M.Type, _ params: M.Params, account: ModelAccount, timeout: Double? = nil, hasDeadline: Bool = false,
    then: @escaping (Result<M.Result, RPCError>, Calls.Call) -> Void
  ) {
    guard
      isRunning({
        self.call(method, params, account: account, timeout: timeout, hasDeadline: hasDeadline, then: then)
      }), let machine, machine.isServing
    else { return }
    let run = run
    let limit = hasDeadline ? Moment(min(timeout ?? 30, 300) * 1000) : nil
    let id = calls.begin(
      .init(
        account: account, method: M.name, startedAt: now, deadline: limit.map { now + $0 }, run: run))
    counts.add(M.name)
    if let limit { time.after(limit + Self.slack) { self.checkDeadline(id, M.name, account) } }
    let request = RPCRequest(method: M.name, params: JSON(encoding: params), isNotification: false)
    let heard = Heard(then: then)
    Task {
      let outcome = await machine.router.respond(to: request, session: Client())
      guard run == self.run, let call = self.calls.end(id) else { return }
      let result: Result<M.Result, RPCError>
      switch outcome {
      case .success(let json):
        do {
          result = .success(try json.decode(M.Result.self))
        } catch {
          return self.violated(.progress, "\(M.name) returned an unreadable answer")
        }
      case .failure(let error):
        self.checkPatience(error, call.account)
        result = .failure(error)
      }
      heard.then(result, call)
    }
  }

  private func checkDeadline(_ id: Int, _ method: String, _ account: ModelAccount) {
    guard let call = calls.underWay[id], call.run == run else { return }
    // Whatever ended while the machine slept ends when it wakes.
    guard resumedAt + Self.slack <= now else {
      time.at(resumedAt + Self.slack) { self.checkDeadline(id, method, account) }
      return
    }
    // The process was stopped when the request arrived, and read it when it continued.
    if let deadline = call.deadline, call.startedAt == stillness.began {
      let due = resumedAt + deadline - call.startedAt + Self.slack
      guard due <= now else { return _ = time.at(due) { self.checkDeadline(id, method, account) } }
    }
    violated(.deadline, "\(method) of \(account.name), asked at \(Trace.clock(call.startedAt)), has no answer yet")
  }

  // MARK: token.get

  func getToken(_ account: ModelAccount, minTTL: Double?, timeout: Double?, resource: String? = nil) {
    guard
      isRunning({ self.getToken(account, minTTL: minTTL, timeout: timeout, resource: resource) }), let machine,
      machine.isServing
    else { return }
    account.askedAt.append(now)
    if let resource { return getToken(account, for: resource, minTTL: minTTL, timeout: timeout) }
    // As the socket does: a plain request is answered from the cache.
    if timeout == nil, minTTL.map({ $0.rounded() == $0 }) ?? true,
      let reply = machine.router.cachedTokens(for: .process(Client.process)).reply(
        account: account.name, minTTL: minTTL.map { Int64($0) })
    {
      counts.add("token.get from the cache")
      guard let text = reply.accessToken else { return violated(.progress, "a cached reply without a token") }
      trace.add(now, "token.get \(account.name) → \(text) (cached)")
      checkLifetime(reply.expiresIn, account)
      return handedOut(text, generation: reply.generation, to: account)
    }
    call(
      TokenGet.self, .init(account: account.name, min_ttl: minTTL, timeout: timeout), account: account,
      timeout: timeout, hasDeadline: true
    ) { result, call in
      switch result {
      case .success(let token):
        self.trace.add(self.now, "token.get \(account.name) → \(token.access_token ?? "")")
        self.checkLifetime(token.expires_in, account)
        self.handedOut(token.access_token ?? "", generation: token.generation, to: account)
      case .failure(let error): self.refusedToken(error, account)
      }
    }
  }

  /// One for another resource, under the same grant (RFC 8707).
  private func getToken(_ account: ModelAccount, for resource: String, minTTL: Double?, timeout: Double?) {
    call(
      TokenGet.self, .init(account: account.name, resource: resource, min_ttl: minTTL, timeout: timeout),
      account: account, timeout: timeout, hasDeadline: true
    ) { result, _ in
      switch result {
      case .success(let token):
        self.counts.add("tokens for a resource")
        self.trace.add(self.now, "token.get \(account.name) for \(resource) → \(token.access_token ?? "")")
        self.checkLifetime(token.expires_in, account)
        if token.access_token == self.disk.contents.tokens[account.key]?.accessToken.exposed {
          return self.violated(.isolation, "\(account.name) was handed its own token for \(resource)")
        }
        self.handedOut(token.access_token ?? "", generation: token.generation, to: account, isForResource: true)
      case .failure(let error): self.refusedToken(error, account, isForResource: true)
      }
    }
  }

  private func handedOut(
    _ text: String, generation: Int64?, to account: ModelAccount, isForResource: Bool = false
  ) {
    counts.add("tokens released")
    guard let token = Token(text), token.kind == .access, token.provider == account.provider.index,
      let session = account.provider.session(token), session.account == account.index
    else { return violated(.isolation, "\(account.name) was handed \(text)") }
    if account.removed.contains(session.number), !account.signedInAgain.contains(text) {
      return violated(.revoked, "\(account.name) was handed \(text), which was forgotten")
    }
    if account.superseded.contains(session.number) {
      return violated(.revoked, "\(account.name) was handed \(text), of an older login")
    }
    if account.rejected.contains(text) {
      return violated(.revoked, "\(account.name) was handed \(text), which was reported as refused")
    }
    let record = session.accessTokens[token.number]
    checkExpiry(text, record, account)
    // Without rotation, a narrowed refresh leaves the account its old refresh token.
    let isKept = !isForResource || account.provider.isDeclaredToRotate
    if isKept, session.isAlive, record.refreshToken >= 0, account.newestSaved < record.refreshToken {
      violated(
        .durable, "\(account.name) was handed \(text), whose refresh token r.….\(record.refreshToken) is not on disk")
    }
    use(text, record, session, generation, account)
  }

  private func checkExpiry(_ text: String, _ record: ModelProvider.AccessToken, _ account: ModelAccount) {
    // A clock that was set is noticed within half a minute; and it may have been stopped with the token in its hand.
    guard now - steppedAt > 31 * second, now > resumedAt else { return }
    if record.run == run, let end = record.expiresAt, now >= end + second {
      violated(.expired, "\(account.name) was handed \(text), which had expired \((now - end) / second) s before")
    }
    // A token of this run moves with the clock in memory first, and on disk shortly after.
    let onDisk = [disk.contents.tokens[account.key]] + (disk.contents.narrowed[account.key] ?? [:]).values.map { $0 }
    if record.run != run, let saved = onDisk.compactMap(\.self).first(where: { $0.accessToken.exposed == text }),
      let end = saved.expiresAt, end <= wall
    {
      violated(.expired, "\(account.name) was handed \(text), which the disk says has expired")
    }
  }

  /// The program takes the token to a resource server, which may refuse it.
  private func use(
    _ text: String, _ record: ModelProvider.AccessToken, _ session: ModelProvider.Session, _ generation: Int64?,
    _ account: ModelAccount
  ) {
    let isGood = session.isAlive && (record.expiresAt.map { $0 > now } ?? true)
    guard let generation, !isGood && clients.chance(0.5) || isAllowed(.refusals) && clients.chance(0.02) else { return }
    reportRejected(account, generation: generation, text)
  }

  func reportRejected(_ account: ModelAccount, generation: Int64, _ text: String?) {
    account.askedAt.append(now)
    trace.add(now, "token.report_rejected \(account.name) generation \(generation)")
    call(
      TokenReportRejected.self, .init(account: account.name, generation: generation), account: account,
      hasDeadline: true
    ) { result, _ in
      if case .failure(let error) = result { self.refusedToken(error, account, wasRejected: true) }
    }
    guard let text, machine?.isServing == true else { return }
    account.reported.insert(text)
    // By the next moment it has been heard.
    isHeard(text, of: account, run: run)
  }

  private func isHeard(_ text: String, of account: ModelAccount, run: Int) {
    time.after(1) {
      guard run == self.run, self.isRunning({ self.isHeard(text, of: account, run: run) }) else { return }
      account.rejected.insert(text)
    }
  }

  private func refusedToken(
    _ error: RPCError, _ account: ModelAccount, wasRejected: Bool = false, isForResource: Bool = false
  ) {
    counts.add("refused: \(error.reason?.rawValue ?? "?")")
    trace.add(now, "→ \(account.name): \(error.reason?.rawValue ?? "?"): \(error.message)")
    guard let session = account.session else { return }
    if error.reason == .unknownAccount { return violated(.ended, "\(account.name) is unknown, and was not forgotten") }
    if error.reason == .loginRequired, fate(account, session) == .live {
      return violated(.ended, "\(account.name) should sign in again, though the provider accepts the token on disk")
    }
    guard !wasRejected, !isForResource, error.reason != .loginRequired, error.reason != .shuttingDown,
      let saved = disk.contents.tokens[account.key], !account.reported.contains(saved.accessToken.exposed),
      // All callers of this world are one reporter.
      saved.reports.isEmpty,
      let end = saved.expiresAt, end > wall + .seconds(1), now - steppedAt > 31 * second,
      saved.issuedAt <= wall
    else { return }
    // After the clock was set, the token gets the shorter of both lifetimes.
    if let token = Token(saved.accessToken.exposed), token.session == session.number,
      session.accessTokens[token.number].run == run || steppedAt < runningSince,
      session.accessTokens[token.number].expiresAt.map({ $0 > now + second }) ?? true
    {
      violated(
        .invisible,
        "\(account.name) got \(error.reason?.rawValue ?? "?"), though its token on disk is good for "
          + "\((end - wall).wholeSeconds) s")
    }
  }
}

extension CachedReply {
  private var text: String {
    String(decoding: body.head, as: UTF8.self) + "0" + String(decoding: body.tail, as: UTF8.self)
  }

  var accessToken: String? { member("\"access_token\":\"") { $0 != UInt8(ascii: "\"") } }
  var generation: Int64? { member("\"generation\":") { (0x30...0x39).contains($0) }.flatMap { Int64($0) } }

  private func member(_ name: String, while isPart: (UInt8) -> Bool) -> String? {
    guard let range = text.range(of: name) else { return nil }
    return String(decoding: text[range.upperBound...].utf8.prefix(while: isPart), as: UTF8.self)
  }
}
