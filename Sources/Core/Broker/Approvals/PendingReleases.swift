import BrokerAPI
import Principals

/// Token releases that wait for approval, and approvals for a time. Only in memory; times are since boot, which no user
/// can set.
struct PendingReleases {
  /// The limits of pending requests: in total, per holder, and per unit of a holder.
  static let most = 256
  static let mostPerHolder = 64
  static let mostPerUnit = 8
  /// Approvals and denials that are active at once: in total, and of one approving holder.
  static let mostApprovals = 256
  static let mostApprovalsPerHolder = 64
  /// The maximum duration of one approval.
  static let longestApproval = Duration.seconds(3600)

  /// Who asks, as rules and the audit trail see it. Another process that is the same in all of this is the same asker.
  typealias Requester = AuditCaller

  struct Question: Hashable {
    var account: String
    var method: String
    /// Whether it is about an ID token, which other methods cannot use.
    var isIDToken = false
    /// Nil: all that the caller may have.
    var scopes: Set<String>?
    var resource: String?
    /// The one request that it is about; nil: it is about a token.
    var request: Request?

    struct Request: Hashable {
      /// `POST https://api.example.com/v1/messages`.
      var line: String
      /// SHA-256 of the body in hexadecimal; nil: there is none.
      var bodyDigest: String?
      /// The line names the calls of the Model Context Protocol; their arguments may be any.
      var isOfCalls = false
    }

    /// Whether who may have this may have the other as well. With the token in hand, all is possible that the other
    /// methods do.
    func covers(_ other: Question) -> Bool {
      guard account == other.account, isIDToken == other.isIDToken, method == other.method || method == TokenGet.name,
        resource == other.resource, request == other.request || method == TokenGet.name
      else { return false }
      guard let scopes else { return true }
      return other.scopes?.isSubset(of: scopes) ?? false
    }
  }

  enum Phase: Equatable {
    case waiting
    case approved
    case denied
    /// The caller hung up.
    case abandoned
  }

  struct Release {
    let id: String
    let question: Question
    let caller: Principal
    let rule: String
    let since: Duration
    let until: Duration
    fileprivate(set) var phase = Phase.waiting
  }

  struct Approval {
    /// The release that it was given for.
    let id: String
    let question: Question
    /// The requester at the time of the approval, which is valid for every caller that is the same requester.
    let caller: Principal
    var asker: Requester { Requester(caller) }
    /// The holder whose share it uses.
    let approver: Holder
    let isAllowed: Bool
    let until: Duration
    /// How many more requests it holds for; nil: any number.
    var left: Int?
  }

  /// The result of an answer.
  enum DecisionOutcome: Equatable {
    case accepted
    /// Nothing waits under that id.
    case notFound
    /// It is the process that asked.
    case ownRequest
    /// An approval for some time is for a caller that can be told from others of its user.
    case unidentifiedCaller
    case tooMany
  }

  private var byID: [String: Release] = [:]
  private var approvals: [Approval] = []

  /// The oldest first.
  var waiting: [Release] {
    byID.values.filter { $0.phase == .waiting }.sorted { ($0.since, $0.id) < ($1.since, $1.id) }
  }

  subscript(id: String) -> Release? { byID[id] }

  /// The active approval or denial for it; nil: a user must be asked. The latest one applies.
  mutating func approval(on question: Question, of caller: Principal, at now: Duration) -> Approval? {
    let asker = Requester(caller)
    let index = approvals.lastIndex { approval in
      guard approval.asker == asker, approval.until > now, approval.left != 0 else { return false }
      return approval.isAllowed ? approval.question.covers(question) : approval.question == question
    }
    guard let index else { return nil }
    if let left = approvals[index].left { approvals[index].left = left - 1 }
    return approvals[index]
  }

  /// Begins to wait; false: too many do.
  mutating func begin(
    _ id: String, _ question: Question, of caller: Principal, rule: String, from now: Duration, until: Duration
  ) -> Bool {
    var shares = Shares(all: Self.most, perHolder: Self.mostPerHolder)
    for release in byID.values { _ = shares.acquire(for: release.caller.holder) }
    let own = Requester(caller)
    let unit = byID.values.filter {
      let other = Requester($0.caller)
      return $0.caller.holder == caller.holder && other.unit == own.unit && other.userUnit == own.userUnit
    }
    guard byID[id] == nil, shares.shortage(for: caller.holder) == nil, unit.count < Self.mostPerUnit else {
      return false
    }
    byID[id] = Release(id: id, question: question, caller: caller, rule: rule, since: now, until: until)
    return true
  }

  /// A user's answer, for one request or for a time.
  mutating func decide(
    _ isAllowed: Bool, on id: String, for span: Duration?, calls: Int? = nil, from approver: Principal, at now: Duration
  ) -> DecisionOutcome {
    guard let release = byID[id], release.phase == .waiting, now < release.until else { return .notFound }
    // Indistinguishable callers are equal: the kernel reports 0 for processes of other namespaces.
    guard !isAllowed || !(approver.pid == 0 || Self.isOwn(approver, release.caller)) else { return .ownRequest }
    if span != nil || calls != nil {
      let asker = Requester(release.caller)
      guard asker.isMoreThanUser else { return .unidentifiedCaller }
      // A further answer to the same question replaces the earlier one.
      let others = approvals.filter {
        $0.until > now && $0.left != 0 && !($0.asker == asker && $0.question == release.question)
      }
      // Root and the broker's own user take nothing from others.
      let most = approver.holder.hasOwnPlaces ? Self.mostApprovals : Self.mostApprovalsPerHolder
      var shares = Shares(all: Self.mostApprovals, perHolder: most)
      for approval in others { shares.add(1, for: approval.approver) }
      guard shares.shortage(for: approver.holder) == nil else { return .tooMany }
      let approval = Approval(
        id: id, question: release.question, caller: release.caller, approver: approver.holder, isAllowed: isAllowed,
        until: now + min(span ?? Self.longestApproval, Self.longestApproval), left: calls)
      approvals = others + [approval]
    }
    byID[id]?.phase = isAllowed ? .approved : .denied
    return .accepted
  }

  /// Whether it is the process that asked. Of a caller over TCP no process is known, but which service it is.
  private static func isOwn(_ approver: Principal, _ asker: Principal) -> Bool {
    guard asker.pid == 0 else { return approver.pid == asker.pid }
    let (approver, asker) = (Requester(approver), Requester(asker))
    guard approver.uid == asker.uid, approver.unit == asker.unit, approver.userUnit == asker.userUnit else {
      return false
    }
    return (asker.userUnit ?? asker.unit)?.hasSuffix(".service") ?? false
  }

  mutating func abandon(_ id: String) {
    if byID[id]?.phase == .waiting { byID[id]?.phase = .abandoned }
  }

  mutating func remove(_ id: String) { byID[id] = nil }

  /// Ends an answer that is active. Nil: there is none with this id, or `mayEnd` is false for it.
  mutating func revoke(_ id: String, at now: Duration, if mayEnd: (Question) -> Bool) -> Approval? {
    let index = approvals.firstIndex { $0.id == id && $0.until > now && $0.left != 0 && mayEnd($0.question) }
    return index.map { approvals.remove(at: $0) }
  }

  /// A new policy is active: approvals under the old one end.
  mutating func clearApprovals() { approvals = [] }
}

extension PendingReleases {
  /// Digits and letters that cannot be confused (Crockford's base 32).
  private static let letters = Array("0123456789abcdefghjkmnpqrstvwxyz")

  /// Six letters. It names, and proves nothing.
  static func id(_ bytes: [UInt8]) -> String { String(bytes.prefix(6).map { letters[Int($0) % letters.count] }) }

  // MARK: As others see it

  /// The caller, for messages. A user's own unit is said to be one: it may have the name of one of the system's.
  static func description(of caller: Principal) -> String {
    let who = Requester(caller)
    let unit = who.userUnit.map { "user unit \($0)" } ?? who.unit
    let program = who.executable.map { exe in exe + (unit.map { " in \($0)" } ?? "") } ?? unit
    return "\(program ?? "a program") of \(caller.user)"
  }

  /// - Parameter wall: the wall clock at a time since the machine started.
  func approvals(at now: Duration, wall: (Duration) -> Int64) -> [ApprovalView] {
    approvals.filter { $0.until > now && $0.left != 0 }.map { approval in
      ApprovalView(
        account: approval.question.account, method: approval.question.method,
        kind: approval.question.isIDToken ? .idToken : nil, scopes: approval.question.scopes?.sorted(),
        resource: approval.question.resource,
        caller: ReleaseCaller(anyOf: approval.caller),
        allowed: approval.isAllowed, until: wall(approval.until), request: approval.question.request?.line,
        calls_left: approval.left.map(Int64.init), id: approval.id)
    }
  }
}

extension PendingReleases.Release {
  func view(wall: (Duration) -> Int64, outcome: String? = nil) -> ReleaseView {
    ReleaseView(
      id: id, account: question.account, method: question.method, kind: question.isIDToken ? .idToken : nil,
      scopes: question.scopes?.sorted(),
      resource: question.resource, request: question.request?.line, body_sha256: question.request?.bodyDigest,
      caller: ReleaseCaller(caller),
      rule: rule, since: wall(since), until: wall(until), outcome: outcome)
  }
}

extension ReleaseCaller {
  fileprivate init(_ caller: Principal) {
    switch caller {
    case .process(let process), .unit(_, manager: let process), .peer(let process):
      self.init(
        uid: process.uid, pid: process.pid, unit: process.unit, user_unit: process.userUnit, exe: process.executable,
        parent: process.parent)
    }
  }

  /// All that are the same asker.
  fileprivate init(anyOf caller: Principal) {
    self.init(caller)
    (pid, parent) = (nil, nil)
  }
}
