import BrokerAPI
import Grants
import Logging
import OAuth
import Principals

/// Token files: each is a release to its reader, under the same policy and in the same trail as one on the socket.
@BrokerActor
final class FileReleases: Piece {
  let runtime: Runtime
  private let accounts: Accounts
  private let journal: Journal
  private let tokens: TokenRequests
  private let authorizer: Authorizer
  private let audit: AuditLog
  private let requests: RequestTally
  private let disk: (any TokenFileDisk)?
  private var kept: [TokenFile.Place: Kept] = [:]
  /// The store records the file before it is written, so a crash leaves no unrecorded file.
  private var recorded: [TokenFile.Place] = []

  /// A file, as one task looks after it.
  private final class Kept {
    /// Nil: the file must not exist.
    var file: TokenFile?
    /// Something of the broker's may be there.
    var isThere: Bool
    var trouble: Trouble?
    /// The token that is in the file.
    var generation: Int64?
    /// The last written content.
    var written: Written?
    /// Failed tries since the last that did not.
    var failures = 0
    /// How often another program changed or deleted the file, and it was written again, and when that was last.
    var restored = 0
    var restoredAt: Timestamp?
    /// Restorations that followed each other directly.
    var fights = 0
    /// The file is not written again before this time: another program changes it all the time.
    var restUntil = Duration.zero

    init(isThere: Bool) { self.isThere = isThere }
  }

  /// Which token a file has, without the token.
  private struct Written: Equatable {
    var generation: Int64?
    var expiresAt: Int64?
  }

  private struct Trouble: Equatable {
    var reason: ErrorReason
    var message: String
    var hint: String?
    var since: Timestamp
  }

  init(
    _ runtime: Runtime, accounts: Accounts, journal: Journal, tokens: TokenRequests, authorizer: Authorizer,
    audit: AuditLog, requests: RequestTally, disk: (any TokenFileDisk)?
  ) {
    self.runtime = runtime
    self.accounts = accounts
    self.journal = journal
    self.tokens = tokens
    self.authorizer = authorizer
    self.audit = audit
    self.requests = requests
    self.disk = disk
  }

  // MARK: Which files there are

  /// At the start: files of an earlier run that are not wanted any more are removed.
  func takeOver(_ files: [TokenFile]) {
    if let changes = disk?.changes {
      Task { [weak self] in for await paths in changes { self?.changed(paths) } }
    }
    recorded = journal.values[Self.recordKey].map(TokenFile.Place.list) ?? []
    for place in recorded { begin(place, isThere: true) }
    configure(files)
  }

  /// A reload brought these.
  func configure(_ files: [TokenFile]) {
    guard disk != nil else { return }
    var wanted: [TokenFile.Place: TokenFile] = [:]
    for file in files where wanted[file.place] == nil { wanted[file.place] = file }
    for (place, kept) in kept where kept.file != wanted[place] {
      kept.file = wanted[place]
      kept.trouble = nil
      kept.written = nil
    }
    for (place, file) in wanted where kept[place] == nil { begin(place, isThere: false, file) }
    waiters.wakeAccounts()
  }

  /// Files that were written, or that another program changed.
  private func changed(_ paths: [String]) {
    let paths = Set(paths)
    let files = kept.compactMap { paths.contains($0.key.path) ? $0.value.file : nil }
    for account in Set(files.map(\.account)) { waiters.wake(.account(account)) }
  }

  private func begin(_ place: TokenFile.Place, isThere: Bool, _ file: TokenFile? = nil) {
    let kept = Kept(isThere: isThere)
    kept.file = file
    self.kept[place] = kept
    Task { await keep(place, kept) }
  }

  private func keep(_ place: TokenFile.Place, _ kept: Kept) async {
    var repeats = 0
    while !isDraining {
      if let file = kept.file {
        let (looked, hasMoved) = await waiters.watching(.account(file.account)) { await examine(file, kept) }
        guard kept.file == file else { continue }
        // A look itself can move the account: a few times at once, then with a pause.
        repeats = hasMoved ? repeats + 1 : 0
        let pause = !hasMoved ? looked : repeats <= Self.mostRepeats ? .zero : min(looked, Self.shortestPause)
        await wait(for: .account(file.account), until: uptime + pause)
      } else if await remove(place, kept) {
        guard kept.file == nil else { continue }
        self.kept[place] = nil
        return await record(place, isThere: false)
      } else {
        await system.sleep(Self.shortestPause)
      }
    }
  }

  /// Writes down that something is, or is no longer, there.
  private func record(_ place: TokenFile.Place, isThere: Bool) async {
    guard recorded.contains(place) != isThere else { return }
    if isThere { recorded.append(place) } else { recorded.removeAll { $0 == place } }
    await journal.put(Self.recordKey, TokenFile.Place.text(of: recorded), "which token files there are")
  }

  // MARK: One file

  /// Updates the file; returns how long it stays valid without a change.
  private func examine(_ file: TokenFile, _ kept: Kept) async -> Duration {
    // The user may have left a group since the configuration was read.
    let reader = await disk?.current(file.reader) ?? file.reader
    do throws(RPCError) {
      let permission = try permission(file, reader)
      let token = try await tokens.token(
        file.account,
        .init(
          account: file.account.rawValue, kind: file.kind, scopes: file.scopes, resource: file.resource,
          audience: file.audience,
          min_ttl: file.minimumTTL / .seconds(1), timeout: Self.patience),
        permission, isPaced: false)
      let content = try content(token, file)
      await record(file.place, isThere: true)
      // After a reload or a logout the file is examined again before anything is written.
      guard kept.file == file, authorizer.isCurrent(permission), accounts.contains(file.account) else { return .zero }
      // Another program that always changes the file gets more and more time between two writes.
      guard uptime >= kept.restUntil else { return kept.restUntil - uptime }
      let wasThere = kept.isThere
      kept.isThere = true
      let isChanged = try await write(content, file)
      let written = Written(generation: token.generation, expiresAt: token.expires_at)
      if isChanged, wasThere, kept.written == written { restored(file, kept) }
      kept.written = written
      kept.failures = 0
      kept.trouble = nil
      if isChanged || kept.generation != nil && kept.generation != token.generation {
        released(token, file, permission)
      }
      kept.generation = token.generation
      guard !isChanged else { return .zero }
      return pause(token, file)
    } catch {
      return await failed(error, file, kept)
    }
  }

  /// The file had the same token before, so another program changed or deleted it.
  private func restored(_ file: TokenFile, _ kept: Kept) {
    let isFight = kept.restoredAt.map { now - $0 < Self.interval } ?? false
    kept.fights = isFight ? kept.fights + 1 : 0
    kept.restored += 1
    kept.restoredAt = now
    if kept.fights >= Self.mostRepeats {
      let factor = 1 << min(kept.fights - Self.mostRepeats, 10)
      kept.restUntil = uptime + min(Self.longestRest, Self.shortestRest * factor)
    }
    logger.warning(
      "token file \(file.name) was changed or deleted by another program, and is written again",
      metadata: ["hint": "Find the program, or give it another path: one file has one writer."])
  }

  private func permission(_ file: TokenFile, _ reader: TokenFile.Reader) throws(RPCError) -> Permission {
    let permission = try authorizer.authorize(
      reader.caller, TokenGet.access(of: file.kind), TokenGet.name, account: file.account.rawValue)
    try authorizer.checkUnasked(permission, "a file")
    return permission
  }

  private func content(_ token: TokenGet.Result, _ file: TokenFile) throws(RPCError) -> [UInt8] {
    guard (token.token_type ?? "Bearer").lowercased() == "bearer" else {
      throw RPCError(
        .unsupportedByProvider,
        "the tokens of account \(file.account) are bound to a key (\(token.token_type ?? "")), which a file cannot contain",
        hint: "Send requests with `grantctl request \(file.account) GET PATH`.")
    }
    let content = TokenFileFormat.Content(
      token: token.id_token ?? token.access_token ?? token.session_id ?? "", type: "Bearer",
      expiresAt: token.expires_at,
      scopes: token.scope, account: file.account.rawValue)
    guard let bytes = file.bytes(of: content) else {
      throw RPCError(.providerError, "the token of account \(file.account) has characters that no token may have")
    }
    return bytes
  }

  private func write(_ content: [UInt8], _ file: TokenFile) async throws(RPCError) -> Bool {
    switch await disk?.write(content, to: file) {
    case .success(let isChanged)?: return isChanged
    case .failure(let failure)?: throw RPCError(.storeFailure, failure.message, hint: failure.hint)
    case nil: return false
    }
  }

  /// Until the token has to be another. That of the whole grant is renewed before; others, when they are asked for.
  private func pause(_ token: TokenGet.Result, _ file: TokenFile) -> Duration {
    guard let end = token.expires_at else { return Self.interval }
    let left = Duration.seconds(end) - .milliseconds(now.milliseconds) - file.minimumTTL
    return min(Self.interval, max(Self.shortestPause, left))
  }

  /// - Returns: true: nothing is there any more.
  private func remove(_ place: TokenFile.Place, _ kept: Kept) async -> Bool {
    guard kept.isThere, let disk else { return true }
    if let failure = await disk.remove(place) {
      if kept.trouble == nil {
        logger.warning(
          "token file \(place.path) is not removed: \(failure.message)", metadata: ["hint": "\(failure.hint)"])
      }
      kept.trouble = Trouble(reason: .storeFailure, message: failure.message, hint: failure.hint, since: now)
      return false
    }
    kept.isThere = false
    kept.generation = nil
    kept.written = nil
    logger.info("token file \(place.path) is removed")
    return true
  }

  private func failed(_ error: RPCError, _ file: TokenFile, _ kept: Kept) async -> Duration {
    // The refresh continues, and reports its end.
    if isDraining || error.reason == .timedOut { return isDraining ? .zero : Self.shortestPause }
    let reason = error.reason ?? .storeFailure
    let isNew = kept.trouble?.reason != reason || kept.trouble?.message != error.message
    if isNew {
      kept.trouble = Trouble(
        reason: reason, message: error.message, hint: error.hint,
        since: kept.trouble.map(\.since) ?? now)
      refused(error, file)
    }
    kept.failures += 1
    switch reason {
    // No reader may have a token, or none can be had: an old token would be refused without a reason.
    case .locked, .notPermitted, .unknownAccount, .loginRequired, .unsupportedByProvider, .scopeNotGranted:
      if kept.isThere, !(await remove(file.place, kept)) { return Self.shortestPause }
      return Self.interval
    default:
      let backoff = Self.shortestPause * (1 << min(kept.failures - 1, 6))
      return min(Self.interval, error.retry_after.map { .seconds($0) } ?? backoff)
    }
  }

  // MARK: What others learn of it

  /// The paths of the files that exist, or may exist.
  var present: [String] { kept.filter { $0.value.isThere }.map(\.key.path).sorted() }

  private func released(_ token: TokenGet.Result, _ file: TokenFile, _ permission: Permission) {
    let entry = AuditEntry(
      action: file.kind == .idToken ? .idToken : .release, method: Self.method, account: file.account.rawValue,
      who: .init(file.caller), provider: token.provider, scopes: token.scope, generation: token.generation,
      rule: permission.rule, detail: file.name)
    audit.record(entry, by: file.caller, isReal: true)
    requests.answered(Self.method, .success(()))
    emit(
      Event(
        type: .fileWritten, at: now.seconds, account: file.account.rawValue, provider: token.provider,
        generation: token.generation, message: file.place.path))
  }

  private func refused(_ error: RPCError, _ file: TokenFile) {
    let entry = AuditEntry(
      action: file.kind == .idToken ? .idToken : .release, method: Self.method, account: file.account.rawValue,
      who: .init(file.caller), result: (error.reason ?? .storeFailure).rawValue, detail: file.name)
    audit.record(entry, by: file.caller, isReal: audit.knows(file.account.rawValue))
    requests.answered(Self.method, Result<Void, RPCError>.failure(error))
    logger.warning(
      "token file \(file.name) of account \(file.account): \(error.message)", metadata: ["hint": "\(error.hint ?? "")"])
  }

  /// As `broker.status` has them, in the order of their paths: those of accounts that the caller may observe.
  func views(for caller: Principal) -> [BrokerStatus.FileView] {
    let policy = authorizer.policy
    return kept.values.compactMap { kept in
      guard let file = kept.file,
        policy.allows(.observe, method: BrokerStatus.name, account: file.account.rawValue, caller: caller)
      else { return nil }
      let state =
        switch (kept.trouble, kept.isThere) {
        case (nil, true): "ok"
        case (_, true): "stale"
        case (_, false): "absent"
        }
      return .init(
        path: file.place.path, account: file.account.rawValue, state: state, reason: kept.trouble?.reason.rawValue,
        message: kept.trouble?.message, hint: kept.trouble?.hint, since: kept.trouble?.since.seconds,
        restored: kept.restored == 0 ? nil : kept.restored, restored_at: kept.restoredAt?.seconds)
    }
    .sorted { $0.path < $1.path }
  }
}

extension FileReleases {
  /// The method name of a token file, for counts and records.
  fileprivate static let method = "file"
  fileprivate static let recordKey = "files"
  /// The interval at which files are compared with their content.
  fileprivate static let interval = Duration.seconds(300)
  /// Looks in a row without a pause.
  fileprivate static let mostRepeats = 4
  fileprivate static let shortestPause = Duration.seconds(5)
  /// Between two writes of a file that another program changes all the time.
  fileprivate static let shortestRest = Duration.seconds(1)
  fileprivate static let longestRest = Duration.seconds(60)
  /// The maximum seconds of one wait for a refresh: after it the file's conditions are examined again.
  fileprivate static let patience = 0.5
}

extension TokenFile.Reader {
  /// The caller for rules: any process of the reader.
  var caller: Principal {
    switch self {
    case .user(let uid, let gid, let groups): .process(Caller(uid: uid, gid: gid, groups: groups, pid: 0))
    case .group(let gid): .process(Caller(uid: .max, gid: gid, groups: [gid], pid: 0))
    }
  }
}

extension TokenFile {
  var caller: Principal { reader.caller }

  /// The content; nil: the token has invalid characters.
  func bytes(of content: TokenFileFormat.Content) -> [UInt8]? {
    switch place.member {
    case nil: format.text(of: content).map { Array($0.utf8) }
    case .json: format.value(of: content)?.serialized()
    case .ini:
      format.value(of: content).map { value in value.string.map { Array($0.utf8) } ?? value.serialized() }
    }
  }
}

// MARK: The record

extension TokenFile.Place {
  /// A JSON array.
  static func text(of places: [Self]) -> String {
    let items = places.map { place -> JSON in
      var members = [JSON.Member(name: "path", value: .string(place.path))]
      switch place.member {
      case nil: break
      case .json(let names): members.append(.init(name: "json", value: .array(names.map { .string($0) })))
      case .ini(let section, let key): members.append(.init(name: "ini", value: [.string(section), .string(key)]))
      }
      return .object(members)
    }
    return JSON.array(items).text()
  }

  static func list(_ text: String) -> [Self] {
    let items = (try? JSON.parse(Array(text.utf8)))?.array ?? []
    return items.compactMap { item in
      guard let path = item["path"]?.string else { return nil }
      if let names = item["json"]?.array { return Self(path: path, member: .json(names.compactMap(\.string))) }
      if let words = item["ini"]?.array?.compactMap(\.string), words.count == 2 {
        return Self(path: path, member: .ini(section: words[0], key: words[1]))
      }
      return Self(path: path)
    }
  }
}
